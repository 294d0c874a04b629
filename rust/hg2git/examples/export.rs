//! An export of a whole repository, measured: `export STORE OUTDIR [threads] [nocheck | each]
//! [memory=MIB]`.
//!
//! STORE is a directory `.hg/store`. OUTDIR is created, and gets a pack and a map. Prints for each
//! phase the seconds, the processor seconds and the peak of resident memory so far. Linux: reads
//! `/proc`.

mod whole;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use dialect::Cinnabar;
use hg2git::{Phase, Request, export};
use whole::WholeRequest;

/// `USER_HZ`: the unit of times in `/proc/self/stat`, the same on all Linux.
const TICKS_PER_SECOND: f64 = 100.0;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [store, outdir, rest @ ..] = arguments.as_slice() else {
        return Err("usage: export STORE OUTDIR [threads] [nocheck | each] [memory=MIB]".into());
    };
    let threads = rest.iter().find_map(|argument| argument.parse().ok()).unwrap_or(0);
    let memory = rest.iter().find_map(|argument| argument.strip_prefix("memory="));
    let memory_mib: u64 = memory.map_or(Ok(192), str::parse)?;
    let (store, outdir) = (Path::new(store), Path::new(outdir));
    let whole = WholeRequest::new(store, outdir)?;
    let request = Request {
        check_texts: !rest.iter().any(|argument| argument == "nocheck"),
        check_each_manifest: rest.iter().any(|argument| argument == "each"),
        threads,
        memory_bytes: memory_mib << 20,
        ..whole.request()
    };
    let start = Moment::now()?;
    let mut now = (Phase::Changesets, start);
    let report = export::<Cinnabar>(&request, &mut |phase, _done, _total| {
        if phase != now.0
            && let Ok(moment) = Moment::now()
        {
            now.1.tell(&format!("{:?}", now.0), &moment);
            now = (phase, moment);
        }
        false
    })?;
    let end = Moment::now()?;
    now.1.tell(&format!("{:?}", now.0), &end);
    start.tell("all", &end);
    println!(
        "{} changesets, {} objects, {} bytes, {}",
        report.changesets,
        report.objects,
        report.pack_bytes,
        report
            .published
            .and_then(|published| published.metadata?.commit)
            .map_or_else(|| "no metadata".to_owned(), |commit| commit.oid.to_string()),
    );
    Ok(())
}

/// Resources that this process has used so far.
#[derive(Clone, Copy)]
struct Moment {
    wall: Instant,
    user_seconds: f64,
    system_seconds: f64,
    peak_kib: u64,
}

impl Moment {
    fn now() -> Result<Self, Box<dyn Error>> {
        let stat = fs::read_to_string("/proc/self/stat")?;
        // fields 14 and 15; the name before the bracket may have spaces
        let (_, fields) = stat.rsplit_once(')').ok_or("no stat")?;
        let mut times = fields.split(' ').skip(12).map(str::parse::<f64>);
        let mut seconds = || -> Result<f64, Box<dyn Error>> {
            Ok(times.next().ok_or("stat is cut")?? / TICKS_PER_SECOND)
        };
        let status = fs::read_to_string("/proc/self/status")?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().split(' ').next()).ok_or("no VmHWM")?;
        Ok(Self {
            wall: Instant::now(),
            user_seconds: seconds()?,
            system_seconds: seconds()?,
            peak_kib: peak.parse()?,
        })
    }

    fn tell(&self, what: &str, after: &Self) {
        println!(
            "{what:12} {:7.3} s  user {:6.2}  system {:5.2}  peak {:6.1} MiB",
            (after.wall - self.wall).as_secs_f64(),
            after.user_seconds - self.user_seconds,
            after.system_seconds - self.system_seconds,
            f64::from(u32::try_from(after.peak_kib).unwrap_or(u32::MAX)) / 1024.0,
        );
    }
}
