/** Where a document that the server asks to show is opened: generated text beside the source, source in its own column. */

import * as vscode from 'vscode';
import type { ShowDocumentParams, ShowDocumentResult } from 'vscode-languageclient/node';
import { DOCUMENT_SCHEME } from '../protocol';

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

/** Generated documents share one column, so that the source stays in sight while the user looks from one to the next. */
function columnFor(uri: vscode.Uri): vscode.ViewColumn {
  const generated = vscode.window.tabGroups.all.find(group => group.tabs.some(isGenerated))?.viewColumn;
  if (uri.scheme === DOCUMENT_SCHEME) {
    return generated ?? vscode.ViewColumn.Beside;
  }
  return columnOfOpen(uri) ?? vscode.window.tabGroups.all.find(group => group.viewColumn !== generated)?.viewColumn
    ?? vscode.ViewColumn.Active;
}

function columnOfOpen(uri: vscode.Uri): vscode.ViewColumn | undefined {
  const shows = (tab: vscode.Tab) => tab.input instanceof vscode.TabInputText && tab.input.uri.toString() === uri.toString();
  return vscode.window.tabGroups.all.find(group => group.tabs.some(shows))?.viewColumn;
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
