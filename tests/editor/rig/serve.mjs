// `make editor`: a real VS Code with the extension, open on a folder, until Ctrl+C.
import { execFileSync } from 'node:child_process';
import * as path from 'node:path';
import { installExtension, startServer } from './server.mjs';

const [rig, home, vsix, folder, port, python] = process.argv.slice(2);
const executable = execFileSync(python, ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).trim();
const installed = path.resolve(home, 'installed');
installExtension({ rig: path.resolve(rig), vsix: path.resolve(vsix), folder: installed });

const server = await startServer({
  rig: path.resolve(rig),
  home: path.resolve(home, 'home'),
  installed,
  settings: { 'dynascope.pythonPath': executable },
  trusted: true,
  port: Number(port),
});
console.log(`VS Code with Dynascope: ${server.address}/?folder=${encodeURIComponent(path.resolve(folder))}\nCtrl+C ends it.`);
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => void server.stop().then(() => process.exit(0)));
}
