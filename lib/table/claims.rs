//! What an arrow file claims of its parts, held against its length before the reader makes room for them: it takes
//! the lengths of the footer and of compressed buffers on trust.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, bail, ensure};
use arrow_ipc::{Message, root_as_footer, root_as_message};

/// A buffer of a batch holds one column; more than this after decompression is an attack.
const MAX_BUFFER: i64 = 1 << 30;
/// In front of a message: there is one more length.
const CONTINUED: [u8; 4] = [0xff; 4];

/// Refuses a file of batches whose parts would not fit into it.
pub fn check_file(file: &File) -> Result<()> {
    let length = file.metadata()?.len();
    let tail = length.checked_sub(10).context("too short")?;
    let footer = i32::from_le_bytes(read(file, tail)?).try_into().unwrap_or(u64::MAX);
    ensure!(footer <= tail, "a footer of {footer} bytes in a file of {length}");
    let bytes = read_some(file, tail - footer, footer)?;
    let footer = root_as_footer(&bytes).ok().context("a damaged footer")?;
    let blocks = footer.dictionaries().into_iter().chain(footer.recordBatches()).flatten();
    for block in blocks {
        let (at, head, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
        let [Ok(at), Ok(head), Ok(body)] = [u64::try_from(at), u64::try_from(head), u64::try_from(body)] else {
            bail!("a block before the beginning of the file");
        };
        let end = at.checked_add(head).and_then(|end| end.checked_add(body));
        ensure!(end.is_some_and(|end| end <= length), "a block beyond the end of the file");
        let head = read_some(file, at, head)?;
        let prefix = if head.starts_with(&CONTINUED) { 8 } else { 4 };
        let message = root_as_message(head.get(prefix..).context("a block without a message")?);
        check_buffers(file, &message.ok().context("a damaged message")?, at + head.len() as u64, body)?;
    }
    Ok(())
}

/// The same for a stream of messages, as far as it goes.
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
        ensure!(bytes <= length - at, "a message of {bytes} bytes with {} left", length - at);
        let head = read_some(file, at, bytes)?;
        let message = root_as_message(&head).ok().context("a damaged message")?;
        at += bytes;
        let body = u64::try_from(message.bodyLength()).unwrap_or(u64::MAX);
        ensure!(body <= length - at, "a message with a body of {body} bytes with {} left", length - at);
        check_buffers(file, &message, at, body)?;
        at += body;
    }
    Ok(())
}

/// A compressed buffer begins with the length that it shall have.
fn check_buffers(file: &File, message: &Message<'_>, body: u64, length: u64) -> Result<()> {
    let batch = message.header_as_record_batch();
    let batch = batch.or_else(|| message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()));
    let Some(batch) = batch.filter(|batch| batch.compression().is_some()) else { return Ok(()) };
    for buffer in batch.buffers().into_iter().flatten() {
        let (Ok(at), Ok(bytes)) = (u64::try_from(buffer.offset()), u64::try_from(buffer.length())) else {
            bail!("a buffer before the beginning of its batch");
        };
        ensure!(at.checked_add(bytes).is_some_and(|end| end <= length), "a buffer beyond the end of its batch");
        if bytes >= 8 {
            let claim = i64::from_le_bytes(read(file, body + at)?);
            ensure!(claim <= MAX_BUFFER, "a buffer of {claim} bytes");
        }
    }
    Ok(())
}

fn read<const N: usize>(file: &File, at: u64) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

/// Bytes that are known to be there.
fn read_some(file: &File, at: u64, n: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(n)?];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}
