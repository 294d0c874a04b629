// The steps, with JGit.

import java.io.File;
import java.util.Map;
import org.eclipse.jgit.api.Git;
import org.eclipse.jgit.transport.CredentialsProvider;
import org.eclipse.jgit.transport.RefSpec;
import org.eclipse.jgit.transport.RemoteRefUpdate.Status;
import org.eclipse.jgit.transport.UsernamePasswordCredentialsProvider;

class JgitSteps {
    public static void main(String[] arguments) throws Exception {
        String step = arguments[0];
        File directory = new File(arguments[1]);
        String argument = arguments[2];
        Map<String, String> env = System.getenv();
        if (env.containsKey("PASSWORD")) {
            CredentialsProvider.setDefault(new UsernamePasswordCredentialsProvider(
                env.get("USERNAME"), env.get("PASSWORD")));
        }
        if (step.equals("clone") || step.equals("shallow")) {
            var clone = Git.cloneRepository().setURI(env.get("URL")).setDirectory(directory);
            if (step.equals("shallow")) {
                clone.setDepth(1);
            }
            clone.call().close();
            return;
        }
        try (Git git = Git.open(directory)) {
            switch (step) {
                case "fetch" -> git.fetch().call();
                case "commit" -> {
                    git.add().addFilepattern(argument).call();
                    git.commit().setMessage(argument).call();
                }
                case "push" -> {
                    for (var result : git.push().setRefSpecs(new RefSpec(argument)).call()) {
                        for (var update : result.getRemoteUpdates()) {
                            if (update.getStatus() != Status.OK) {
                                throw new Exception(update.toString());
                            }
                        }
                    }
                }
            }
        }
    }
}
