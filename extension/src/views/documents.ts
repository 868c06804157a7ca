/** The text behind `dynascope:` URIs, asked of the server: read-only, highlighted by its language. */

import * as vscode from 'vscode';
import type { Server } from '../client';
import { DOCUMENT_SCHEME } from '../protocol';
import { OPEN_DOCUMENT } from './hoverLinks';
import { followable } from './pageLinks';
import { showDocument } from './showDocument';

export function registerDocuments(server: Server): vscode.Disposable {
  const changes = new vscode.EventEmitter<vscode.Uri>();
  const provider: vscode.TextDocumentContentProvider = {
    onDidChange: changes.event,
    async provideTextDocumentContent(uri, token) {
      const answer = await server.document(uri, token);
      if (answer !== undefined) {
        void highlightAs(uri, answer.languageId);
      }
      const text = answer?.text ?? 'The Dynascope server does not run: start it with "Dynascope: Restart Server".\n';
      return uri.path.endsWith('.md') ? followable(text, vscode.workspace.workspaceFolders?.[0]?.uri.path) : text;
    },
  };
  return vscode.Disposable.from(
    changes,
    server.onRunState(() => void pagesAreReady()),
    vscode.workspace.registerTextDocumentContentProvider(DOCUMENT_SCHEME, provider),
    vscode.commands.registerCommand(OPEN_DOCUMENT, (uri: string) => showDocument({ uri, takeFocus: true })),
    server.onDocumentsChanged(uris => uris.forEach(uri => changes.fire(vscode.Uri.parse(uri)))),
  );
}

/** What shows Markdown rendered starts with its first page, which is blank for seconds meanwhile: it starts beside the first run. */
async function pagesAreReady(): Promise<void> {
  await vscode.extensions.getExtension('vscode.markdown-language-features')?.activate();
}

/** The document is made only after its text was provided, and may be of the right language by its name already. */
async function highlightAs(uri: vscode.Uri, languageId: string): Promise<void> {
  const document = await vscode.workspace.openTextDocument(uri);
  if (document.languageId !== languageId && (await vscode.languages.getLanguages()).includes(languageId)) {
    await vscode.languages.setTextDocumentLanguage(document, languageId);
  }
}
