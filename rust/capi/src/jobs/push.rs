//! Jobs `convert` and `survey`: commits of git are converted to changesets, or only judged.

use std::fs::File;
use std::path::Path;

use dialect::{Dialect, ImportSettings, RenameSettings};
use git2hg::{
    AtLimit, ConversionPipes, ConversionRequest, ConversionStage, Error, Finding, KnownChangeset,
    PipedDecoder, Refusal, StreamSettings, SurveyProgress,
};
use gitpack::Oid;
use revlog::writing::Compression;
use revlog::{Node, Store};

use super::{Call, directory, encoding, file, optional_directory, version};
use crate::failure::Failure;
use crate::message::Fields;

/// Converts new commits to a changegroup, and verifies it by converting it back, if `round_trip` is
/// set.
///
/// `commits` is the output of `git cat-file --batch`, parents before children. `trees` and `blobs`
/// are the pipes of a `git cat-file --batch-command --buffer` each, and `decoder` those of a
/// [`PipedDecoder`], for dialects that need one. `user` is the user of commits without an author, and `renames` says how renames are found, if they are.
/// If `packs` is a directory, objects in its packs are read from there. With `verifies`, they are
/// verified, and `is_verified` answers whether all are.
/// With `may_be_part`, the first commits are enough if all need too much memory.
/// The changegroup is written to `out` at its position. Phases: 0 commits converted, 1 writing the changegroup, 2 changesets
/// converted back.
pub(super) fn convert(mut message: Fields<'_>, call: &Call) -> Result<Vec<u8>, Failure> {
    with_dialect!(message, D => convert_by::<D>(message, call))
}

fn convert_by<D: Dialect>(mut message: Fields<'_>, call: &Call) -> Result<Vec<u8>, Failure> {
    let (commits, out) = (file(&mut message, "commits")?, file(&mut message, "out")?);
    let (mut trees, mut blobs): (Fields<'_>, Fields<'_>) =
        (message.take("trees")?, message.take("blobs")?);
    let (tree_requests, tree_answers) =
        (file(&mut trees, "requests")?, file(&mut trees, "answers")?);
    let (blob_requests, blob_answers) =
        (file(&mut blobs, "requests")?, file(&mut blobs, "answers")?);
    let decoder: Option<Fields<'_>> = message.take("decoder")?;
    let decoder = decoder.map(decoder_pipes).transpose()?;
    let renames: Option<Fields<'_>> = message.take("renames")?;
    let renames = renames.map(rename_settings).transpose()?;
    let user = message.take("user")?;
    let mut import = ImportSettings { user, renames, ..ImportSettings::default() };
    if let Some(decoder) = &decoder {
        import.decoder = decoder;
    }
    let dir = directory(&mut message, "scratch")?;
    let packs = optional_directory(&mut message, "packs")?;
    let store = Store::new(message.take("store")?, encoding(message.take("encoding")?)?);
    let known: Vec<Fields<'_>> = message.take("known")?;
    let known = known.into_iter().map(known_changeset).collect::<Result<Vec<_>, _>>()?;
    let request = ConversionRequest {
        store: &store,
        known: &known,
        packs: packs.as_ref(),
        verifies: message.take("verifies")?,
        version: version(message.take("version")?)?,
        dir: &dir,
        memory_bytes: message.take("memory_bytes")?,
        most_file_bytes: message.take("most_file_bytes")?,
        branch: message.take("branch")?,
        round_trip: message.take("round_trip")?,
        import,
        is_exact: message.take("is_exact")?,
        at_limit: if message.take("may_be_part")? { AtLimit::Stop } else { AtLimit::Fail },
    };
    for read in [message, trees, blobs] {
        read.end()?;
    }
    let pipes = ConversionPipes {
        commits: &*commits,
        trees: (&*tree_requests, &*tree_answers),
        blobs: (&*blob_requests, &*blob_answers),
    };
    let converted = call.supervise(|progress| {
        let watch = |stage: ConversionStage, done| progress.set(stage as u32, done, 0);
        git2hg::convert::<D, _, _>(pipes, &request, &out, &watch).map_err(Failure::from)
    })?;
    let changesets: Vec<u8> = (converted.changesets.iter())
        .flat_map(|(oid, node)| [*oid.as_bytes(), *node.as_bytes()])
        .flatten()
        .collect();
    let refused: Vec<_> = converted.refused.iter().map(refusal).collect();
    let foreign: Vec<u8> = converted.foreign.iter().flat_map(|oid| *oid.as_bytes()).collect();
    let answer = Fields::default()
        .with("changesets", &changesets[..])
        .with("foreign", &foreign[..])
        .with("is_verified", u32::from(converted.is_verified))
        .with("refused", refused);
    Ok(answer.encode())
}

/// Writes the revlogs of the changegroup in `group`, from `start` on, to `out`: the files of a stream
/// clone, which `names` lists, separated by newlines. `branches` has names of branches in the same
/// way, escaped as in extras, and `branch_of` four bytes for each changeset: twice the number of its
/// branch, and one more if it closes it. `level` is that of zstd if `is_zstd` is set,
/// else of zlib. Phases: 3 files written.
pub(super) fn stream(mut message: Fields<'_>, call: &Call) -> Result<Vec<u8>, Failure> {
    let (group, out) = (file(&mut message, "group")?, file(&mut message, "out")?);
    let dir = directory(&mut message, "scratch")?;
    let start: u64 = message.take("start")?;
    let level: u32 = message.take("level")?;
    let level = i32::try_from(level).map_err(|_| Failure::bug("a level is too high".to_owned()))?;
    let is_zstd: bool = message.take("is_zstd")?;
    let settings = StreamSettings {
        version: version(message.take("version")?)?,
        compression: if is_zstd { Compression::Zstd(level) } else { Compression::Zlib(level) },
        longest_chain: message.take("longest_chain")?,
        dir: &dir,
        memory_bytes: message.take("memory_bytes")?,
    };
    message.end()?;
    let pipes: [&File; 2] = [&group, &out];
    let made = call.supervise(|progress| {
        let [group, out] = pipes;
        let watch = |stage: ConversionStage, done| progress.set(stage as u32, done, 0);
        git2hg::stream((group, start), out, &settings, &watch).map_err(Failure::from)
    })?;
    let names = made.names.join(&b'\n');
    let branches = made.branches.join(&b'\n');
    let branch_of: Vec<u8> = made.branch_of.iter().flat_map(|it| it.to_be_bytes()).collect();
    let answer = Fields::default()
        .with("names", &names[..])
        .with("bytes", made.bytes)
        .with("changesets", made.changesets)
        .with("revisions", made.revisions)
        .with("files", made.files)
        .with("branches", &branches[..])
        .with("branch_of", &branch_of[..]);
    Ok(answer.encode())
}

fn rename_settings(mut fields: Fields<'_>) -> Result<RenameSettings, Failure> {
    let settings = RenameSettings {
        similarity: fields.take("similarity")?,
        limit: fields.take("limit")?,
        all_sources: fields.take("all_sources")?,
    };
    fields.end()?;
    Ok(settings)
}

/// Pipes of a decoder, duplicated: a decoder needs them for as long as the conversion.
fn decoder_pipes(mut fields: Fields<'_>) -> Result<PipedDecoder<File, File>, Failure> {
    let pipe = |fields: &mut Fields<'_>, name| {
        file(fields, name)?.try_clone().map_err(|problem| Failure::io(Path::new(""), &problem))
    };
    let decoder = PipedDecoder::new(pipe(&mut fields, "requests")?, pipe(&mut fields, "answers")?);
    fields.end()?;
    Ok(decoder)
}

fn known_changeset(mut fields: Fields<'_>) -> Result<KnownChangeset<'_>, Failure> {
    let oid = Oid::from_bytes(*fields.take::<Node>("commit")?.as_bytes());
    let known = KnownChangeset { oid, node: fields.take("node")?, text: fields.take("text")? };
    fields.end()?;
    Ok(known)
}

fn refusal(Refusal { oid, reason, detail }: &Refusal) -> Fields<'_> {
    Fields::default()
        .with("commit", oid.as_bytes())
        .with("reason", *reason as u32)
        .with("detail", &detail[..])
}

/// Surveys the commits that `git cat-file --batch` has written to `commits`, parents before
/// children.
///
/// `requests` and `answers` are the pipes of a `git cat-file --batch-command --buffer`. The answer
/// has the ids of the refused commits, and the number of the reason for each. Phases: 0 commits,
/// with an unknown total; 1 trees, with a growing total.
pub(super) fn survey(mut message: Fields<'_>, call: &Call) -> Result<Vec<u8>, Failure> {
    with_dialect!(message, D => survey_by::<D>(message, call))
}

fn survey_by<D: Dialect>(mut message: Fields<'_>, call: &Call) -> Result<Vec<u8>, Failure> {
    let commits = file(&mut message, "commits")?;
    let (requests, answers) = (file(&mut message, "requests")?, file(&mut message, "answers")?);
    let is_exact = message.take("is_exact")?;
    message.end()?;
    let pipes: [&File; 3] = [&commits, &requests, &answers];
    let found = call.supervise(|progress| {
        let [commits, requests, answers] = pipes;
        let watch = |SurveyProgress { stage, done, total }: SurveyProgress| {
            progress.set(stage as u32, done, total)
        };
        git2hg::survey::<D>(is_exact, commits, requests, answers, &watch).map_err(Failure::from)
    })?;
    let (mut refused, mut reasons) = (Vec::new(), Vec::new());
    for (oid, reason) in found.refused() {
        refused.extend_from_slice(oid.as_bytes());
        reasons.push(reason as u8);
    }
    let findings: Vec<_> = found.findings().iter().map(finding).collect();
    let answer = Fields::default()
        .with("commits", found.commits())
        .with("trees", found.trees())
        .with("commit_extras", found.extras()[0])
        .with("tree_extras", found.extras()[1])
        .with("findings", findings)
        .with("refused", &refused[..])
        .with("reasons", &reasons[..]);
    Ok(answer.encode())
}

fn finding(Finding { reason, commits, first, detail }: &Finding) -> Fields<'_> {
    Fields::default()
        .with("reason", *reason as u32)
        .with("commits", *commits)
        .with("first", first.as_bytes())
        .with("detail", &detail[..])
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Cancelled => Self::cancelled(),
            Error::Io(_) | Error::Ended | Error::Answer(_) | Error::Differs(_) => {
                Self::corrupt(message).hint("run 'git fsck' there")
            }
            Error::Missing(_) => Self::input(message).hint(
                "make a full clone; alternates are not followed: 'git repack -a -d' copies what \
                 they have",
            ),
            Error::TooManyFiles(_) => {
                Self::input(message).hint("raise amalgam.git.memory where hg runs")
            }
            Error::TooManyRevisions(_) => Self::input(message)
                .hint("take fewer commits at once, or raise amalgam.git.memory where hg runs"),
            Error::TooLarge { .. } | Error::TooMany => Self::unsupported(message),
            Error::Store(problem) => changegroup::Error::Store(problem).into(),
            Error::Scratch(source) | Error::Output(source) => Self::io(Path::new(""), &source),
            Error::Wrong(_) => Self::bug(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::failure::Status;

    const TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    fn planted(name: &str, content: &str) -> File {
        let path = std::env::temp_dir().join(format!("{}-{name}", std::process::id()));
        let mut file = File::options().create_new(true).read(true).write(true).open(&path);
        let file = file.as_mut().expect("is made");
        std::fs::remove_file(path).expect("is ours");
        file.write_all(content.as_bytes()).expect("has room");
        file.rewind().expect("is a file");
        file.try_clone().expect("is open")
    }

    fn run(name: &str, commits: &str, answers: &str) -> Result<Vec<u8>, Failure> {
        let files = [("commits", commits), ("requests", ""), ("answers", answers)]
            .map(|(field, content)| (field, planted(&format!("{name}-{field}"), content)));
        let descriptor = |file: &File| u32::try_from(file.as_raw_fd()).expect("is open");
        let fields = files
            .iter()
            .fold(Fields::default(), |fields, (field, file)| fields.with(field, descriptor(file)))
            .with("dialect", "cinnabar")
            .with("is_exact", 0_u32);
        survey(fields, &Call::of_test())
    }

    fn commit(id: &str, header: &str) -> String {
        let ident = "A <a@x> 1 +0000";
        let text = format!("tree {TREE}\nauthor {ident}\ncommitter {ident}\n{header}\nm\n");
        format!("{} commit {}\n{text}\n", id.repeat(20), text.len())
    }

    #[test]
    fn findings_and_refusals_are_told() {
        let commits = [commit("11", ""), commit("22", "encoding x\n")].concat();
        let answer = run("told", &commits, &format!("{TREE} tree 0\n\n")).expect("is surveyed");
        let finding = Fields::default()
            .with("reason", 3_u32)
            .with("commits", 1_u32)
            .with("first", &[0x22; 20])
            .with("detail", "encoding x");
        let expected = Fields::default()
            .with("commits", 2_u32)
            .with("trees", 1_u32)
            .with("commit_extras", 0_u32)
            .with("tree_extras", 0_u32)
            .with("findings", vec![finding])
            .with("refused", &[0x22; 20])
            .with("reasons", "\u{3}");
        assert_eq!(answer, expected.encode());
    }

    #[test]
    fn a_missing_tree_is_an_error() {
        let refused = run("lost", &commit("11", ""), &format!("{TREE} missing\n"));
        let refused = refused.expect_err("is refused");
        assert_eq!(refused.status(), Status::Input);
        assert_eq!(refused.to_string(), format!("object {TREE} is missing"));
    }

    #[test]
    fn a_missing_pipe_is_a_bug() {
        let fields = Fields::default().with("dialect", "cinnabar");
        let refused = survey(fields, &Call::of_test()).expect_err("is refused");
        assert_eq!(refused.to_string(), "field 'commits' is missing");
    }
}
