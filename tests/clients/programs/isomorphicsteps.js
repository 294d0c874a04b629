// The steps, with isomorphic-git.

const fs = require('fs')
const git = require('isomorphic-git')
const http = require('isomorphic-git/http/node')

const [step, dir, argument] = process.argv.slice(2)
const { URL: url, USERNAME: username, PASSWORD: password } = process.env
const author = { name: 'test', email: 'test@example.org' }
const common = { fs, http, dir, onAuth: () => ({ username, password }) }

const steps = {
  clone: () => git.clone({ ...common, url }),
  shallow: () => git.clone({ ...common, url, depth: 1 }),
  fetch: () => git.fetch({ ...common, remote: 'origin', tags: true }),
  commit: async () => {
    await git.add({ ...common, filepath: argument })
    await git.commit({ ...common, message: argument, author })
  },
  push: () => {
    const [, sign, ref, remoteRef] = argument.match(/^(\+?)(.*):(.*)$/)
    if (!ref) return git.push({ ...common, ref: 'HEAD', remoteRef, delete: true })
    return git.push({ ...common, ref, remoteRef, force: sign === '+' })
  },
}
steps[step]().catch(error => {
  console.error(error)
  process.exit(1)
})
