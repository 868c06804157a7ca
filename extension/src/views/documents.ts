/** The text behind `dynascope:` URIs, asked of the server: read-only, highlighted by its language. */

import * as vscode from 'vscode';
import type { Server } from '../client';
import { DOCUMENT_SCHEME } from '../protocol';
import { OPEN_DOCUMENT } from './hoverLinks';
import { showDocument } from './showDocument';

export const NO_SERVER = 'The Dynascope server does not run: start it with "Dynascope: Restart Server".\n';

export function registerDocuments(server: Server): vscode.Disposable {
  const changes = new vscode.EventEmitter<vscode.Uri>();
  const provider: vscode.TextDocumentContentProvider = {
    onDidChange: changes.event,
    async provideTextDocumentContent(uri, token) {
      const answer = await server.document(uri, token);
      if (answer !== undefined) {
        void highlightAs(uri, answer.languageId);
      }
      return answer?.text ?? NO_SERVER;
    },
  };
  return vscode.Disposable.from(
    changes,
    vscode.workspace.registerTextDocumentContentProvider(DOCUMENT_SCHEME, provider),
    vscode.commands.registerCommand(OPEN_DOCUMENT, (uri: string) => showDocument({ uri, takeFocus: true })),
    server.onDocumentsChanged(uris => uris.forEach(uri => changes.fire(vscode.Uri.parse(uri)))),
  );
}

/** The document is made only after its text was provided, and may be of the right language by its name already. */
async function highlightAs(uri: vscode.Uri, languageId: string): Promise<void> {
  const document = await vscode.workspace.openTextDocument(uri);
  if (document.languageId !== languageId && (await vscode.languages.getLanguages()).includes(languageId)) {
    await vscode.languages.setTextDocumentLanguage(document, languageId);
  }
}
