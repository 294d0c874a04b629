// The steps, with go-git.
package main

import (
	"log"
	"os"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/plumbing/transport/ssh"
)

func main() {
	step, directory, argument := os.Args[1], os.Args[2], os.Args[3]
	url := os.Getenv("URL")
	var auth transport.AuthMethod
	if password, found := os.LookupEnv("PASSWORD"); found {
		auth = &http.BasicAuth{Username: os.Getenv("USERNAME"), Password: password}
	}
	if strings.HasPrefix(url, "ssh:") {
		key, err := ssh.NewPublicKeysFromFile("hg", os.Getenv("HOME")+"/.ssh/id_ecdsa", "")
		check(err)
		auth = key
	}
	if step == "clone" || step == "shallow" {
		options := &git.CloneOptions{URL: url, Auth: auth}
		if step == "shallow" {
			options.Depth = 1
		}
		_, err := git.PlainClone(directory, false, options)
		check(err)
		return
	}
	repo, err := git.PlainOpen(directory)
	check(err)
	switch step {
	case "fetch":
		check(repo.Fetch(&git.FetchOptions{Auth: auth}))
	case "commit":
		tree, err := repo.Worktree()
		check(err)
		_, err = tree.Add(argument)
		check(err)
		_, err = tree.Commit(argument, &git.CommitOptions{})
		check(err)
	case "push":
		specs := []config.RefSpec{config.RefSpec(argument)}
		check(repo.Push(&git.PushOptions{Auth: auth, RefSpecs: specs}))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
