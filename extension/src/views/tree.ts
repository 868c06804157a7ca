/** The tree beside the editor: what became of the active file's program, function by function. */

import * as vscode from 'vscode';
import { activeFile } from '../activeFile';
import type { Server } from '../client';
import type { TreeNode } from '../protocol';
import { GO_TO } from './cellLinks';
import { goToLine } from './goTo';

const VIEW = 'dynascope.tree';

export function registerTree(server: Server): vscode.Disposable {
  const provider = new Results(server);
  return vscode.Disposable.from(
    vscode.window.registerTreeDataProvider(VIEW, provider),
    vscode.commands.registerCommand(GO_TO, goTo),
    server.onTreeChanged(() => provider.refresh()),
    server.onState(() => provider.refresh()),
    vscode.window.onDidChangeActiveTextEditor(editor => editor?.document.languageId === 'python' && provider.refresh()),
    provider,
  );
}

class Results implements vscode.TreeDataProvider<TreeNode>, vscode.Disposable {
  private readonly changes = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changes.event;
  /** Of the file that was looked at last: a generated document in front changes nothing. */
  private shown: string | undefined;

  constructor(private readonly server: Server) {}

  refresh(): void {
    this.changes.fire();
  }

  dispose(): void {
    this.changes.dispose();
  }

  async getChildren(node?: TreeNode): Promise<TreeNode[]> {
    if (node !== undefined) {
      return node.children;
    }
    this.shown = activeFile()?.toString() ?? this.shown;
    return this.shown === undefined ? [] : ((await this.server.tree(this.shown)) ?? []);
  }

  getTreeItem(node: TreeNode): vscode.TreeItem {
    const { None, Collapsed, Expanded } = vscode.TreeItemCollapsibleState;
    const isFunction = node.icon === 'symbol-function';
    const item = new vscode.TreeItem(node.label, node.children.length === 0 ? None : isFunction ? Expanded : Collapsed);
    item.description = node.description;
    item.tooltip = node.description ? `${node.label}\n${node.description}` : node.label;
    if (node.icon) {
      item.iconPath = new vscode.ThemeIcon(node.icon);
    }
    if (node.act !== null) {
      item.command = { title: node.label, command: node.act.command, arguments: [this.shown, node.act.detail] };
    } else if (node.place !== null) {
      item.command = { title: node.label, command: GO_TO, arguments: [node.place] };
    }
    return item;
  }
}

function goTo({ uri, line }: NonNullable<TreeNode['place']>): Promise<void> {
  return goToLine(vscode.Uri.parse(uri), line);
}
