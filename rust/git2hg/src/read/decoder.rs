//! Decoder of texts in another process or thread, which is asked through pipes.
//!
//! A request is an encoding and a text, an answer one text in UTF-8. Each begins with its length, as
//! 4 bytes, big-endian. The length `ffffffff` answers that the text cannot be decoded.

use std::io::{self, Read, Write};
use std::sync::{Mutex, PoisonError};

use dialect::Decoder;

/// Length that stands for a text that cannot be decoded.
const NO_TEXT: u32 = u32::MAX;

/// Decoder that is asked through pipes.
#[derive(Debug)]
pub struct PipedDecoder<W, R>(Mutex<Pipes<W, R>>);

#[derive(Debug)]
struct Pipes<W, R> {
    requests: W,
    answers: R,
    problem: Option<io::Error>,
}

impl<W: Write, R: Read> PipedDecoder<W, R> {
    /// Asks through `requests`.
    pub const fn new(requests: W, answers: R) -> Self {
        Self(Mutex::new(Pipes { requests, answers, problem: None }))
    }
}

impl<W: Write, R: Read> Pipes<W, R> {
    fn decode(&mut self, parts: [&[u8]; 2]) -> io::Result<Option<Vec<u8>>> {
        for part in parts {
            let len = u32::try_from(part.len()).map_err(io::Error::other)?;
            self.requests.write_all(&len.to_be_bytes())?;
            self.requests.write_all(part)?;
        }
        self.requests.flush()?;
        let mut len = [0; 4];
        self.answers.read_exact(&mut len)?;
        let len = u32::from_be_bytes(len);
        if len == NO_TEXT {
            return Ok(None);
        }
        let mut text = Vec::new();
        (&mut self.answers).take(u64::from(len)).read_to_end(&mut text)?;
        let is_whole = text.len() == len as usize;
        if is_whole { Ok(Some(text)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl<W, R> Decoder for PipedDecoder<W, R>
where
    W: Write + std::fmt::Debug + Send,
    R: Read + std::fmt::Debug + Send,
{
    fn decode(&self, encoding: &[u8], text: &[u8]) -> Option<Vec<u8>> {
        let mut pipes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match pipes.decode([encoding, text]) {
            Ok(text) => text,
            Err(problem) => {
                pipes.problem.get_or_insert(problem);
                None
            }
        }
    }

    fn check(&self) -> io::Result<()> {
        let mut pipes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pipes.problem.take().map_or(Ok(()), Err)
    }
}
