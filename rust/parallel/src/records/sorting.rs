//! Records in the order of their bytes.
//!
//! Large tables are first divided by first byte, in a second file. Then each part is sorted in
//! memory.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::Records;

/// Approximate limit of the bytes sorted at a time. Records of one first byte may be more.
const SORTED_BYTES: usize = 16 << 20;
/// Size of the write buffer of a part.
const PART_BUFFER_BYTES: usize = 64 << 10;
/// Bytes of a number in the second file.
const NUMBER_LEN: usize = 4;

/// A record and its number.
type Numbered<const LEN: usize> = ([u8; LEN], u32);

impl<const LEN: usize> Records<LEN> {
    /// Calls `each` with all records and their numbers, ascending by their bytes.
    ///
    /// `counts` has the number of records for each first byte.
    ///
    /// # Errors
    ///
    /// [`io::Error`] if a file cannot be read or written, or if the table has 2^32 records or more.
    /// The errors of `each`.
    pub fn for_each_sorted(
        &self,
        counts: &[u32; 256],
        mut each: impl FnMut(&[u8; LEN], u32) -> io::Result<()>,
    ) -> io::Result<()> {
        u32::try_from(self.len()).map_err(io::Error::other)?;
        let parts = parts(counts, SORTED_BYTES / size_of::<Numbered<LEN>>());
        let file = if parts.len() > 1 { self.dir.create_nameless()? } else { None };
        let Some(file) = file else {
            let mut all = Vec::with_capacity(self.len());
            let mut numbers = 0..;
            self.for_each(|record| {
                all.extend(numbers.next().map(|number| (*record, number)));
                Ok(())
            })?;
            return in_order(&mut all, &mut each);
        };
        let ends = self.divide(&file, &parts)?;
        let mut start = 0;
        let mut part = Vec::new();
        for end in ends {
            part.clear();
            read_part(&file, start..end, &mut part)?;
            in_order(&mut part, &mut each)?;
            start = end;
        }
        Ok(())
    }

    /// Writes the records to `file`, grouped by part, and returns the offset of the end of each
    /// part.
    fn divide(&self, file: &File, parts: &[(Range<usize>, usize)]) -> io::Result<Vec<u64>> {
        let mut part_of = [0; 256];
        let mut places = Vec::with_capacity(parts.len());
        let mut end = 0;
        for (part, (bytes, count)) in parts.iter().enumerate() {
            part_of[bytes.clone()].fill(part);
            places.push((end, Vec::with_capacity(PART_BUFFER_BYTES)));
            end += (count * (LEN + NUMBER_LEN)) as u64;
        }
        let mut numbers = 0_u32..;
        self.for_each(|record| {
            let (place, buffer) = &mut places[part_of[usize::from(record[0])]];
            if buffer.len() + LEN + NUMBER_LEN > PART_BUFFER_BYTES {
                write(file, place, buffer)?;
            }
            buffer.extend_from_slice(record);
            buffer.extend(numbers.next().into_iter().flat_map(u32::to_le_bytes));
            Ok(())
        })?;
        let written = places.iter_mut().map(|(place, buffer)| {
            write(file, place, buffer)?;
            Ok(*place)
        });
        written.collect()
    }
}

/// Writes the buffer at `place`, empties it, and advances `place`.
fn write(file: &File, place: &mut u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    file.write_all_at(buffer, *place)?;
    *place += buffer.len() as u64;
    buffer.clear();
    Ok(())
}

/// Divides the first bytes into ranges of up to `most` records, with the number of records of each.
///
/// A range of one byte may have more.
fn parts(counts: &[u32; 256], most: usize) -> Vec<(Range<usize>, usize)> {
    let mut parts: Vec<(Range<usize>, usize)> = Vec::new();
    for (byte, &count) in counts.iter().enumerate() {
        let count = count as usize;
        match parts.last_mut() {
            Some((bytes, all)) if *all + count <= most => {
                bytes.end += 1;
                *all += count;
            }
            _ => parts.push((byte..byte + 1, count)),
        }
    }
    parts
}

/// Reads the records of a part, with their numbers.
fn read_part<const LEN: usize>(
    file: &File,
    range: Range<u64>,
    part: &mut Vec<Numbered<LEN>>,
) -> io::Result<()> {
    let len = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, range.start)?;
    part.extend(bytes.chunks_exact(LEN + NUMBER_LEN).filter_map(|bytes| {
        let (record, number) = bytes.split_first_chunk()?;
        Some((*record, u32::from_le_bytes(*number.first_chunk()?)))
    }));
    Ok(())
}

/// Calls `each` with records in the order of their bytes.
fn in_order<const LEN: usize>(
    records: &mut [Numbered<LEN>],
    each: &mut impl FnMut(&[u8; LEN], u32) -> io::Result<()>,
) -> io::Result<()> {
    // the first bytes nearly always decide, and are compared as one number
    let first = |record: &[u8; LEN]| record.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    records.sort_unstable_by(|(a, _), (b, _)| first(a).cmp(&first(b)).then_with(|| a.cmp(b)));
    records.iter().try_for_each(|(record, number)| each(record, *number))
}
