-- nvim --headless -u CONFIG -l neovim.lua FILE: what a person does in Neovim, with the set-up of docs/editors.md; prints what is shown.
local file = _G.arg[1]
local patience = 120000

local function wait(what, done)
  if not vim.wait(patience, done, 50) then
    print('timed out: ' .. what)
    vim.cmd('cquit 1')
  end
end

vim.cmd.edit(file)
vim.bo.filetype = 'python'
local buffer = vim.api.nvim_get_current_buf()
wait('the server', function()
  return #vim.lsp.get_clients({ bufnr = buffer, name = 'dynascope' }) == 1
end)
local client = vim.lsp.get_clients({ bufnr = buffer, name = 'dynascope' })[1]
wait('initialize', function() return client.initialized end)

local function lenses()
  local answer = client:request_sync('textDocument/codeLens', { textDocument = vim.lsp.util.make_text_document_params() }, 5000, buffer)
  local titles = {}
  for _, lens in ipairs(answer and answer.result or {}) do
    table.insert(titles, lens.command.title)
  end
  return titles
end

print('lens: ' .. lenses()[1])
client:exec_cmd({ title = 'run', command = 'dynascope.compileAndRun', arguments = { vim.uri_from_bufnr(buffer) } }, { bufnr = buffer })
wait('results', function() return #vim.diagnostic.get(buffer, { severity = vim.diagnostic.severity.WARN }) > 0 end)
wait('the end of the run', function()
  local titles = lenses()
  return #titles > 3 and titles[1]:match('compile and run') ~= nil
end)
for _, title in ipairs(lenses()) do
  print('lens: ' .. title)
end
for _, found in ipairs(vim.diagnostic.get(buffer)) do
  print(('diagnostic: line %d [%s] %s'):format(found.lnum + 1, found.code, found.message))
end
local range = { start = { line = 0, character = 0 }, ['end'] = { line = vim.api.nvim_buf_line_count(buffer), character = 0 } }
local hints = client:request_sync('textDocument/inlayHint', { textDocument = vim.lsp.util.make_text_document_params(), range = range }, 5000, buffer)
for _, hint in ipairs(hints.result) do
  print(('hint: line %d %s'):format(hint.position.line + 1, type(hint.label) == 'string' and hint.label or hint.label[1].value))
end
client:exec_cmd({ title = 'kernel', command = 'dynascope.showKernel', arguments = { vim.uri_from_bufnr(buffer) } }, { bufnr = buffer })
wait('the kernel', function() return vim.api.nvim_buf_get_name(0):match('%.cpp$') ~= nil end)
print('shown: ' .. vim.fs.basename(vim.api.nvim_buf_get_name(0)) .. ', ' .. vim.bo.filetype)
vim.cmd('qall!')
