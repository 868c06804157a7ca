/** Where a document that the server asks to show is opened: generated text beside the source, source in its own column. */

import * as vscode from 'vscode';
import type { ShowDocumentParams, ShowDocumentResult } from 'vscode-languageclient/node';
import { DOCUMENT_SCHEME } from '../protocol';
import { columnFor as chosenColumn } from './columns';

export const OPEN_PICTURE = 'dynascope.openPictureAt';
/** VS Code puts a prefix before it in a tab's `viewType`. */
export const PICTURE_VIEW = 'dynascope.picture';
/** An editor of package.json: views/pages.ts. */
export const PAGE_VIEW = 'dynascope.page';

export async function showDocument(params: ShowDocumentParams): Promise<ShowDocumentResult> {
  const uri = vscode.Uri.parse(params.uri);
  try {
    if (params.external === true) {
      return { success: await vscode.env.openExternal(uri) };
    }
    if (isPicture(uri)) {
      await vscode.commands.executeCommand(OPEN_PICTURE, uri, columnFor(uri));
      return { success: true };
    }
    if (isPage(uri)) {
      await vscode.commands.executeCommand('vscode.openWith', uri, PAGE_VIEW, { viewColumn: columnFor(uri), preview: true });
      return { success: true };
    }
    await vscode.window.showTextDocument(uri, {
      viewColumn: columnFor(uri),
      preserveFocus: params.takeFocus !== true,
      preview: true,
      ...(params.selection && { selection: range(params.selection) }),
    });
    return { success: true };
  } catch {
    return { success: false };
  }
}

/** Shown in a view of its own: views/pictures.ts. */
function isPicture(uri: vscode.Uri): boolean {
  return uri.scheme === DOCUMENT_SCHEME && uri.path.endsWith('.html');
}

/** Prose is for reading, not for looking at its Markdown. */
function isPage(uri: vscode.Uri): boolean {
  return uri.scheme === DOCUMENT_SCHEME && uri.path.endsWith('.md');
}

function columnFor(uri: vscode.Uri): vscode.ViewColumn {
  const shows = (tab: vscode.Tab) => tab.input instanceof vscode.TabInputText && tab.input.uri.toString() === uri.toString();
  const groups = vscode.window.tabGroups.all.map(({ viewColumn, tabs }) => ({
    column: viewColumn, tabs: tabs.length, isGenerated: tabs.some(isGenerated), holds: tabs.some(shows),
  }));
  const column = chosenColumn(groups, uri.scheme === DOCUMENT_SCHEME);
  return column === 'beside' ? vscode.ViewColumn.Beside : column === 'active' ? vscode.ViewColumn.Active : column;
}

function isGenerated({ input }: vscode.Tab): boolean {
  if (input instanceof vscode.TabInputWebview) {
    return input.viewType.endsWith(PICTURE_VIEW);
  }
  const hasUri = input instanceof vscode.TabInputText || input instanceof vscode.TabInputCustom;
  return hasUri && input.uri.scheme === DOCUMENT_SCHEME;
}

function range({ start, end }: NonNullable<ShowDocumentParams['selection']>): vscode.Range {
  return new vscode.Range(start.line, start.character, end.line, end.character);
}
