//! Dockets: content of `*.i` for a revlog of version 2.
//!
//! A docket names the files of index and data, and the valid length of the index. Fields:
//! `mercurial/revlogutils/docket.py`, integers big-endian. Does not read these files.

/// Version of a revlog with a docket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// `exp-revlogv2`
    Revlog2,
    /// `exp-changelog-v2`: without delta bases and link revisions, which changelogs do not need.
    Changelog2,
}

impl Version {
    /// Version with this number, if it has a docket.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0xdead => Some(Self::Revlog2),
            0xd34d => Some(Self::Changelog2),
            _ => None,
        }
    }
}

/// Part of a docket that readers need.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Docket<'a> {
    pub version: Version,
    /// Part between radix and `.idx` in the name of the index file.
    pub index_uid: &'a [u8],
    /// Part between radix and `.dat` in the name of the data file.
    pub data_uid: &'a [u8],
    /// Valid length of the index file.
    pub index_len: u64,
}

/// Offset of the lengths: after the version, and three pairs of the length of a uid and the number
/// of older ones.
const LENGTHS_AT: usize = 10;
/// Six lengths and the default compression.
const HEADER_LEN: usize = LENGTHS_AT + 6 * 8 + 1;
/// Length of an older uid, and of its file.
const OLDER_LEN: usize = 5;

impl<'a> Docket<'a> {
    /// Parses a docket; `None` if it is truncated, or if a uid is not a valid file name.
    pub fn parse(version: Version, bytes: &'a [u8]) -> Option<Self> {
        let (header, mut rest) = bytes.split_at_checked(HEADER_LEN)?;
        let mut uid = |at: usize| {
            let (uid, after) = rest.split_at_checked(header[at].into())?;
            let older = usize::from(header[at + 1]);
            let (sizes, after) = after.split_at_checked(older * OLDER_LEN)?;
            let older_len: usize =
                sizes.iter().step_by(OLDER_LEN).map(|&len| usize::from(len)).sum();
            rest = after.split_at_checked(older_len)?.1;
            // it becomes part of a file name
            uid.iter().all(u8::is_ascii_alphanumeric).then_some(uid)
        };
        let (index_uid, data_uid) = (uid(4)?, uid(6)?);
        let (index_len, _) = header[LENGTHS_AT..].split_first_chunk()?;
        let index_len = u64::from_be_bytes(*index_len);
        Some(Self { version, index_uid, data_uid, index_len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docket() -> Vec<u8> {
        let mut bytes = 0xdeadu32.to_be_bytes().to_vec();
        bytes.extend([8, 1, 8, 0, 8, 0]);
        for len in [192u64, 288, 1000, 1200, 0, 0] {
            bytes.extend(len.to_be_bytes());
        }
        bytes.push(b'x');
        bytes.extend(b"11112222");
        bytes.extend([3, 0, 0, 0, 9]); // an older index
        bytes.extend(b"old33334444side5555");
        bytes
    }

    #[test]
    fn older_files_are_passed_over() {
        let expected = Docket {
            version: Version::Revlog2,
            index_uid: b"11112222",
            data_uid: b"33334444",
            index_len: 192,
        };
        assert_eq!(Docket::parse(Version::Revlog2, &docket()), Some(expected));
    }

    #[test]
    fn a_uid_that_leads_to_another_directory_is_refused() {
        let mut bytes = docket();
        let at = bytes.windows(4).position(|part| part == b"1111").expect("is there");
        bytes[at..at + 4].copy_from_slice(b"/../");
        assert_eq!(Docket::parse(Version::Revlog2, &bytes), None);
    }

    #[test]
    fn a_cut_docket_is_refused() {
        let whole = docket();
        let needed = whole.len() - b"side5555".len();
        for cut in 0..needed {
            assert_eq!(Docket::parse(Version::Revlog2, &whole[..cut]), None, "{cut}");
        }
    }
}
