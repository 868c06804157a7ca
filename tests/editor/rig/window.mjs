// One VS Code window in Chromium, spoken to as a person would: the palette, the editor, its panels.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import * as path from 'node:path';

const CANDIDATES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];
const PATIENCE_MS = 40_000;

export function chromiumPath() {
  return [process.env.CHROMIUM, ...CANDIDATES].find(candidate => candidate && existsSync(candidate));
}

const VIEWPORT = { width: 1440, height: 900 };

/** `folder`: what is open, a folder or the file of a workspace of several. */
export async function openWindow({ rig, address, folder, screenshots, viewport = VIEWPORT, scale = 1 }) {
  const { chromium } = createRequire(path.join(rig, 'package.json'))('playwright-core');
  const browser = await chromium.launch({ executablePath: chromiumPath(), headless: true, args: FLAGS });
  const context = await browser.newContext({
    viewport, deviceScaleFactor: scale, locale: 'en-US', timezoneId: 'UTC', colorScheme: 'dark', reducedMotion: 'reduce',
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const kind = folder.endsWith('.code-workspace') ? 'workspace' : 'folder';
  await page.goto(`${address}/?${kind}=${encodeURIComponent(folder)}`, { waitUntil: 'domcontentloaded' });
  await page.locator('.monaco-workbench').waitFor();
  mkdirSync(screenshots, { recursive: true });
  return new Window(page, browser, screenshots);
}

export class Window {
  constructor(page, browser, screenshots) {
    Object.assign(this, { page, browser, screenshots });
  }

  /** Opens a file of the workspace by its name, and returns its editor. `folder`: of which of several folders. */
  async open(name, folder = '') {
    await this.ask('Control+P', folder ? `${folder}/${name}` : name);
    const rows = this.page.locator('.quick-input-list .monaco-list-row', { hasText: name });
    await (folder ? rows.filter({ hasText: folder }) : rows).first().click();
    const editor = this.editor(`${folder && `/${folder}`}/${name}`);
    await editor.locator('.view-lines .view-line').first().waitFor();
    return editor;
  }

  editor(uriEnd) {
    return this.page.locator('.editor-instance', { has: this.page.locator(`[data-uri$="${uriEnd}"]`) });
  }

  /** Closes the document or page that has just been opened beside the source. */
  async closeGenerated() {
    await this.command('View: Close Editor');
  }

  /** The read-only documents of the server. */
  generated() {
    return this.page.locator('.editor-instance', { has: this.page.locator('[data-uri^="dynascope:"]') });
  }

  async command(title) {
    const row = await this.findCommand(title);
    await row.click();
  }

  async findCommand(title) {
    await this.ask('F1', `>${title}`);
    const row = this.page.locator('.quick-input-list .monaco-list-row', { hasText: title }).first();
    await row.waitFor();
    return row;
  }

  /** Opens the box for questions and writes into it. A document that takes the focus as it opens closes it: then once more. */
  async ask(key, text) {
    const input = this.page.locator('.quick-input-widget input.input');
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await this.pressUntil(key, input);
      if (await input.fill(text, { timeout: 5_000 }).then(() => true, () => false)) {
        return;
      }
    }
    await input.fill(text);
  }

  /** A key pressed while a page's frame is loading is lost, so it is pressed again. */
  async pressUntil(key, locator) {
    for (let attempt = 0; attempt < 5; attempt += 1) {
      await this.page.keyboard.press(key);
      if (await locator.waitFor({ timeout: 5_000 }).then(() => true, () => false)) {
        return;
      }
    }
    await locator.waitFor();
  }

  /** Puts the cursor into a line, at its beginning: the middle of a long one may lie out of sight. */
  async putCursor(editor, text) {
    await editor.locator('.view-line', { hasText: text }).first().click({ position: { x: 5, y: 5 } });
  }

  /** Goes to a line of the file in the first column: lines out of sight are not drawn. */
  async goTo(line) {
    await this.command('View: Focus First Editor Group');
    await this.ask('Control+G', `:${line}`);
    await this.page.keyboard.press('Enter');
    await this.status(`Ln ${line},`).waitFor();
  }

  /** Waits until a decoration lies on the line with the text: marks and lenses are drawn one after the other, and move the lines. */
  async under(editor, decoration, text) {
    for (const end = Date.now() + PATIENCE_MS; Date.now() < end; ) {
      const drawn = editor.locator('.view-line', { hasText: text }).first();
      const line = await drawn.boundingBox({ timeout: 1_000 }).catch(() => null);
      for (const mark of await editor.locator(decoration).all()) {
        const box = await mark.boundingBox({ timeout: 1_000 }).catch(() => null);
        const middle = box && box.y + box.height / 2;
        if (line && box && line.y <= middle && middle <= line.y + line.height) {
          return;
        }
      }
      await this.page.waitForTimeout(100);
    }
    assert.fail(`no ${decoration} lies on the line of "${text}"`);
  }

  async choose(text) {
    await this.page.locator('.quick-input-list .monaco-list-row', { hasText: text }).first().click();
  }

  lens(editor, text) {
    return editor.locator('.codelens-decoration a', { hasText: text }).first();
  }

  async problems() {
    await this.command('Problems: Focus on Problems View');
    const rows = this.page.locator('.markers-panel .monaco-list-row');
    await rows.first().waitFor();
    return rows;
  }

  problem(text) {
    return this.page.locator('.markers-panel .monaco-list-row', { hasText: text }).first();
  }

  /** The problem, once it is said of the line. */
  async problemOn(line, text) {
    await this.page.locator('.markers-panel .monaco-list-row', { hasText: text }).filter({ hasText: `[Ln ${line},` }).first().waitFor();
  }

  /** Text of a rendered page: guards, summary, a reason. */
  pageText(text) {
    return this.page.frameLocator('iframe.webview').last().frameLocator('iframe#active-frame').getByText(text).first();
  }

  /** The program's own output; the extension has shown its channel when the program started. */
  output(text) {
    return this.page.locator('.panel .output-view .view-line, .panel .view-lines .view-line', { hasText: text }).first();
  }

  notification(text) {
    return this.page.locator('.notification-list-item', { hasText: text }).first();
  }

  status(text) {
    return this.page.locator('#dynascope\\.dynascope\\.dynascope\\.status, .statusbar-item', { hasText: text }).first();
  }

  /** What a hover over a word says. Lenses that come in move the lines away under the mouse: then it is put there again. */
  async hover(editor, text, said) {
    const word = editor.locator('.view-line span span', { hasText: text }).first();
    const hover = this.page.locator('.monaco-hover:not(.hidden):not(.workbench-hover)').filter({ hasText: said }).first();
    for (let attempt = 0; attempt < 5; attempt += 1) {
      await word.hover();
      if (await hover.waitFor({ timeout: 5_000 }).then(() => true, () => false)) {
        return hover;
      }
      await this.page.mouse.move(5, 5);
    }
    await hover.waitFor();
    return hover;
  }

  /** Waits for a file that a program leaves. */
  async exists(file) {
    for (const end = Date.now() + PATIENCE_MS; !existsSync(file); ) {
      assert.ok(Date.now() < end, `${file} is not there`);
      await this.page.waitForTimeout(50);
    }
  }

  /** Waits until there are as many of something as there should be: what is drawn and taken away again comes piece by piece. */
  async counts(locator, wanted, what) {
    const fits = typeof wanted === 'function' ? wanted : count => count === wanted;
    const end = Date.now() + PATIENCE_MS;
    while (!fits(await locator.count())) {
      assert.ok(Date.now() < end, `${what}: there are ${await locator.count()}`);
      await this.page.waitForTimeout(100);
    }
  }

  async screenshot(name) {
    await this.page.screenshot({ path: path.join(this.screenshots, `${name}.png`) });
  }

  /** Leaving the page first lets the extension host end; otherwise it and its servers stay behind. */
  async close() {
    await this.page.goto('about:blank').catch(() => undefined);
    await this.page.waitForTimeout(500);
    await this.browser.close();
  }
}
