import assert from 'node:assert/strict';
import { homedir } from 'node:os';
import { test } from 'node:test';
import { choose, type Surroundings } from '../src/python/choose';

function surroundings(changes: Partial<Surroundings>, ...files: string[]): Surroundings {
  return {
    setting: '',
    pythonExtension: undefined,
    workspaceFolder: '/project',
    path: '/usr/local/bin:/usr/bin',
    platform: 'linux',
    exists: file => files.includes(file),
    ...changes,
  };
}

test('the setting comes before everything else', () => {
  const all = surroundings({ setting: '/opt/python', pythonExtension: '/envs/python' }, '/project/.venv/bin/python');
  assert.deepEqual(choose(all), { executable: '/opt/python', origin: 'setting' });
});

test('a setting that names no file is taken all the same, so that the user hears of it', () => {
  assert.equal(choose(surroundings({ setting: '/missing/python' }, '/usr/bin/python3'))?.executable, '/missing/python');
});

test('a setting may speak of the workspace folder, the home folder, a relative path and a bare name', () => {
  const chosen = (setting: string) => choose(surroundings({ setting }))?.executable;
  assert.equal(chosen('${workspaceFolder}/env/bin/python'), '/project/env/bin/python');
  assert.equal(chosen('~/env/bin/python'), `${homedir()}/env/bin/python`);
  assert.equal(chosen('env/bin/python'), '/project/env/bin/python');
  assert.equal(chosen('python3.12'), 'python3.12');
});

test("then the Python extension's choice, then .venv, then the PATH in its order", () => {
  const files = ['/project/.venv/bin/python', '/usr/bin/python3', '/usr/local/bin/python'];
  assert.equal(choose(surroundings({ pythonExtension: '/envs/python' }, ...files))?.origin, 'Python extension');
  assert.equal(choose(surroundings({}, ...files))?.executable, '/project/.venv/bin/python');
  assert.equal(choose(surroundings({}, ...files.slice(1)))?.executable, '/usr/bin/python3');
  assert.equal(choose(surroundings({}, ...files.slice(2)))?.executable, '/usr/local/bin/python');
});

test('relative folders of the PATH are passed over: they would mean files of the workspace', () => {
  assert.equal(choose(surroundings({ path: '.:bin:/usr/bin' }, 'bin/python3', 'python3', '/usr/bin/python3'))?.executable, '/usr/bin/python3');
});

test('nothing found is no candidate', () => {
  assert.equal(choose(surroundings({ workspaceFolder: undefined })), undefined);
});
