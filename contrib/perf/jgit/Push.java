import java.io.File;
import java.util.ArrayList;
import java.util.List;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.storage.file.FileRepositoryBuilder;
import org.eclipse.jgit.transport.PushResult;
import org.eclipse.jgit.transport.RefSpec;
import org.eclipse.jgit.transport.RemoteRefUpdate;
import org.eclipse.jgit.transport.Transport;
import org.eclipse.jgit.transport.URIish;

/** Pushes refs as Gerrit's replication does: Push GIT_DIR URL REFSPEC... */
public class Push {
    public static void main(String[] args) throws Exception {
        Repository repository = new FileRepositoryBuilder().setGitDir(new File(args[0])).build();
        List<RefSpec> specs = new ArrayList<RefSpec>();
        for (int i = 2; i < args.length; i++) {
            specs.add(new RefSpec(args[i]));
        }
        Transport transport = Transport.open(repository, new URIish(args[1]));
        PushResult result =
            transport.push(NullProgressMonitor.INSTANCE, transport.findRemoteRefUpdatesFor(specs));
        for (RemoteRefUpdate update : result.getRemoteUpdates()) {
            RemoteRefUpdate.Status status = update.getStatus();
            if (status != RemoteRefUpdate.Status.OK
                && status != RemoteRefUpdate.Status.UP_TO_DATE) {
                System.err.println(update);
                System.exit(1);
            }
        }
        transport.close();
    }
}
