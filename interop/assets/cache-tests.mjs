// Prints the tests of the suite that a reverse proxy is given, as JSON: id and kind.
import tests from './tests/index.mjs'

const list = []
for (const suite of tests) {
  for (const t of suite.tests) {
    if (t.browser_only !== true) {
      list.push({ suite: suite.name, id: t.id, kind: t.kind || 'required' })
    }
  }
}
console.log(JSON.stringify(list))
