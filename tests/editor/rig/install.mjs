// install.mjs RIG VSIX FOLDER: the extension in a folder that the servers of all tests share.
import * as path from 'node:path';
import { installExtension } from './server.mjs';

const [rig, vsix, folder] = process.argv.slice(2).map(each => path.resolve(each));
installExtension({ rig, vsix, folder });
