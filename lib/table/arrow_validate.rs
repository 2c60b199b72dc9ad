//! Checks the lengths in an arrow file against its size before it is decoded.
//! The decoder trusts the lengths in the footer and in compressed buffers, and
//! would allocate whatever they say.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, bail, ensure};
use arrow_ipc::{Message, root_as_footer, root_as_message};

/// A buffer holds one column of a batch; more than this after decompression is
/// an attack.
const MAX_BUFFER: i64 = 1 << 30;
/// The marker before a message that is followed by its length.
const CONTINUED: [u8; 4] = [0xff; 4];

/// Fails if a part of an IPC file lies outside of it or would be unreasonably
/// large. Reads the metadata of all batches, but not their data.
pub fn check_file(file: &File) -> Result<()> {
    let length = file.metadata()?.len();
    let tail = length.checked_sub(10).context("damaged: the file is too short")?;
    let footer = i32::from_le_bytes(read(file, tail)?).try_into().unwrap_or(u64::MAX);
    ensure!(footer <= tail, "damaged: the footer has {footer} bytes, the file only {length}");
    let bytes = read_some(file, tail - footer, footer)?;
    let footer = root_as_footer(&bytes).ok().context("damaged: invalid footer")?;
    let blocks = footer.dictionaries().into_iter().chain(footer.recordBatches()).flatten();
    for block in blocks {
        let (at, head, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
        let [Ok(at), Ok(head), Ok(body)] = [u64::try_from(at), u64::try_from(head), u64::try_from(body)] else {
            bail!("damaged: a block begins before the file");
        };
        let end = at.checked_add(head).and_then(|end| end.checked_add(body));
        ensure!(end.is_some_and(|end| end <= length), "damaged: a block ends after the file");
        let head = read_some(file, at, head)?;
        let prefix = if head.starts_with(&CONTINUED) { 8 } else { 4 };
        let message = root_as_message(head.get(prefix..).context("damaged: a block has no message")?);
        check_buffers(file, &message.ok().context("damaged: invalid message")?, at + head.len() as u64, body)?;
    }
    Ok(())
}

/// The same for an IPC stream, up to its end marker.
///
/// # Errors
///
/// A message that starts with `damaged`; nothing is allocated for the lengths
/// that the file claims.
pub fn check_stream(file: &File) -> Result<()> {
    let length = file.metadata()?.len();
    let mut at = 0;
    while at + 8 <= length {
        let mut head: [u8; 4] = read(file, at)?;
        at += 4;
        if head == CONTINUED {
            head = read(file, at)?;
            at += 4;
        }
        let bytes = u64::try_from(i32::from_le_bytes(head)).unwrap_or(u64::MAX);
        if bytes == 0 {
            break;
        }
        ensure!(
            bytes <= length - at,
            "damaged: a message has {bytes} bytes, the rest of the file only {}",
            length - at
        );
        let head = read_some(file, at, bytes)?;
        let message = root_as_message(&head).ok().context("damaged: invalid message")?;
        at += bytes;
        let body = u64::try_from(message.bodyLength()).unwrap_or(u64::MAX);
        ensure!(
            body <= length - at,
            "damaged: the body of a message has {body} bytes, the rest of the file only {}",
            length - at
        );
        check_buffers(file, &message, at, body)?;
        at += body;
    }
    Ok(())
}

/// A compressed buffer begins with its decompressed length.
fn check_buffers(file: &File, message: &Message<'_>, body: u64, length: u64) -> Result<()> {
    let batch = message.header_as_record_batch();
    let batch = batch.or_else(|| message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()));
    let Some(batch) = batch.filter(|batch| batch.compression().is_some()) else { return Ok(()) };
    for buffer in batch.buffers().into_iter().flatten() {
        let (Ok(at), Ok(bytes)) = (u64::try_from(buffer.offset()), u64::try_from(buffer.length())) else {
            bail!("damaged: a buffer begins before its batch");
        };
        ensure!(at.checked_add(bytes).is_some_and(|end| end <= length), "damaged: a buffer ends after its batch");
        if bytes >= 8 {
            let claim = i64::from_le_bytes(read(file, body + at)?);
            ensure!(claim <= MAX_BUFFER, "damaged: a buffer has {claim} bytes");
        }
    }
    Ok(())
}

fn read<const N: usize>(file: &File, at: u64) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

/// Bytes that are known to be within the file.
fn read_some(file: &File, at: u64, n: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(n)?];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}
