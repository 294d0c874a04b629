import com.google.gerrit.pgm.Daemon;
import com.google.gerrit.pgm.Init;
import java.util.Arrays;

/** Gerrit's programs, which otherwise a war starts: Gerrit init|daemon ARGUMENT... */
public class Gerrit {
    public static void main(String[] args) throws Exception {
        String[] rest = Arrays.copyOfRange(args, 1, args.length);
        boolean isInit = args[0].equals("init");
        int code = isInit ? new Init().main(rest) : new Daemon().main(rest);
        if (isInit || code != 0) {
            System.exit(code);
        }
    }
}
