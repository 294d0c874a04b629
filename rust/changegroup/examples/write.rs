//! Writes the changegroup of all changesets of a store: `write STORE OUT [THREADS]`.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use changegroup::{Changegroup, GroupVersion, Outgoing};
use revlog::{Encoding, RevlogKind, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (store, out) = args.next().zip(args.next()).ok_or("usage: write STORE OUT [THREADS]")?;
    let threads = args.next().map_or(Ok(0), |threads| threads.parse())?;
    let store = Store::new(Path::new(&store), Encoding::DotEncode);
    let changelog = store.open(RevlogKind::Changelog)?;
    let index = changelog.index();
    let changesets = index.revs().map(|rev| (rev.number(), index.node(rev))).collect();
    let request = Outgoing {
        version: GroupVersion::V02,
        changesets,
        common: vec![],
        trusts_links: true,
        threads,
    };
    let start = Instant::now();
    let mut changegroup = Changegroup::open(store, request)?;
    let mut out = std::fs::File::create(out)?;
    // an uncompressed bundle of version 1: what `hg unbundle` reads
    out.write_all(b"HG20\0\0\0\0\0\0\0\x1d\x0bCHANGEGROUP\0\0\0\0\x01\0\x07\x02version02")?;
    let (mut block, mut all) = (Vec::new(), 0);
    loop {
        block.clear();
        changegroup.read(&mut block, &|_| false)?;
        if block.is_empty() {
            break;
        }
        all += block.len();
        out.write_all(&u32::try_from(block.len())?.to_be_bytes())?;
        out.write_all(&block)?;
    }
    out.write_all(&[0; 8])?;
    println!("{all} bytes in {:.3} s", start.elapsed().as_secs_f64());
    Ok(())
}
