//! Any bytes as a stream of samples: loaded, copied and looked at, they are the same samples.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use tarpipe::archive::{ArchiveReader, ArchiveWriter};
use tarpipe::sample::Sample;
use tarpipe::sample::member_name;
use tarpipe::sample::stream::SampleStream;

/// More than any seed holds, and little enough for a fuzzer.
const LIMIT: u64 = 1 << 20;

fn stream(bytes: &[u8]) -> SampleStream {
    SampleStream::new("fuzz", ArchiveReader::new(Box::new(Cursor::new(bytes.to_vec())), false))
}

/// All samples; None where the stream is broken.
fn loaded(bytes: &[u8], limit: u64) -> Option<Vec<Sample>> {
    let mut stream = stream(bytes);
    let mut samples = Vec::new();
    while let Some(head) = stream.next().ok()? {
        samples.extend(stream.load(head, limit).ok()?);
    }
    Some(samples)
}

fn copied(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut stream = stream(bytes);
    let mut writer = ArchiveWriter::new(Vec::new());
    while stream.next().ok()?.is_some() {
        stream.copy(&mut writer, |_| ()).ok()?;
    }
    writer.finish().ok()
}

fn looked(bytes: &[u8]) -> Option<Vec<(String, usize)>> {
    let mut stream = stream(bytes);
    let mut fields = Vec::new();
    while stream.next().ok()?.is_some() {
        stream
            .inspect(|_| true, |member, data| fields.push((member.field.to_owned(), data.map_or(0, |data| data.len()))))
            .ok()?;
    }
    Some(fields)
}

fn shown(samples: &[Sample]) -> Vec<(&str, Vec<(&str, &[u8])>)> {
    samples
        .iter()
        .map(|sample| {
            let members = sample.members.iter().map(|member| (member.field.as_str(), member.data.as_slice()));
            (sample.key.as_str(), members.collect())
        })
        .collect()
}

fuzz_target!(|bytes: &[u8]| {
    _ = loaded(bytes, 100);
    let Some(samples) = loaded(bytes, LIMIT) else { return };
    for sample in &samples {
        assert_eq!(member_name::check_key(&sample.key), Ok(()));
        assert!(sample.bytes() <= LIMIT);
        for member in &sample.members {
            let path = format!("{}.{}", sample.key, member.field);
            assert_eq!(member_name::split(path.as_bytes()), Ok((sample.key.as_str(), member.field.as_str())));
        }
    }
    let mut writer = ArchiveWriter::new(Vec::new());
    samples.iter().for_each(|sample| sample.write(&mut writer).expect("a vector takes everything"));
    let written = writer.finish().expect("a vector takes everything");
    let again = loaded(&written, LIMIT).expect("what was written cannot be read");
    assert_eq!(shown(&again), shown(&samples));
    if let Some(copy) = copied(bytes) {
        let again = loaded(&copy, LIMIT).expect("a copy that cannot be read");
        assert_eq!(shown(&again), shown(&samples));
    }
    let fields: Vec<(String, usize)> =
        samples.iter().flat_map(|sample| &sample.members).map(|m| (m.field.clone(), m.data.len())).collect();
    assert_eq!(looked(bytes), Some(fields));
});
