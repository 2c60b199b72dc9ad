//! Writes the samples: contents are read in parallel and written in order.

use std::fs::File;
use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, Result, anyhow, bail};
use tarpipe::messages;
use tarpipe::messages::progress;
use tarpipe::run::pool::{self, Cost, PoolLimits, WorkerPanicked};
use tarpipe::sample::shard::ShardWriter;
use tarpipe::sort::Sorter;
use tarpipe::table::Flow;
use tarpipe::tally::Tally;

use crate::tarcreate::Args;
use crate::tarcreate::content::{ContentLimits, FieldData, READ_AHEAD};
use crate::tarcreate::inputs::{Inputs, NewSorter};
use crate::tarcreate::keys::UniqueKeys;
use crate::tarcreate::planned_sample::{InputPosition, ItemRefusal, PlannedItem, PlannedSample};

/// Items queued between the thread that reads the inputs and the workers that read contents.
const QUEUED: usize = 64;
const COPY: usize = 1 << 20;

/// A sample whose content is in memory or open.
struct LoadedSample {
    position: InputPosition,
    key: String,
    fields: Vec<(String, FieldData)>,
}

/// Writes all samples and finishes the archive.
pub fn write_all(args: &Args, inputs: Inputs, out: ShardWriter) -> Result<Tally> {
    let mut keys = (!inputs.has_unique_keys() && !args.check).then(|| UniqueKeys::new(args));
    let items = items(args, inputs)?;
    let limits = ContentLimits { max_size: args.max_size, tmpdir: args.sorting().tmpdir };
    let worker = move |_| {
        let limits = limits.clone();
        move |item: PlannedItem| Ok(item.and_then(|sample| load(sample, &limits)))
    };
    let mut output = OrderedOutput { out, tally: Tally::default(), last: None, buf: Vec::new() };
    let emit = |ready: Result<LoadedSample, (InputPosition, ItemRefusal)>| {
        match &ready {
            Ok(ready) => keys.as_mut().map_or(Ok(()), |keys| keys.add(&ready.position, &ready.key))?,
            Err((position, refusal)) => output.leave_out(position, refusal),
        }
        ready.map_or(Ok(()), |ready| output.write(ready))
    };
    pool::run(PoolLimits::for_workers(args.parallel.threads()), items, Cost::none(), worker, emit)?;
    keys.map_or(Ok(()), UniqueKeys::refuse_repeats)?;
    output.out.finish()?;
    Ok(output.tally)
}

/// The items of the inputs, read on a thread of their own.
fn items(args: &Args, inputs: Inputs) -> Result<impl Iterator<Item = Result<PlannedItem>> + Send + use<>> {
    let (sender, receiver) = sync_channel(QUEUED);
    let sorting = args.sorting();
    let body = move || send_all(&inputs, &|| Sorter::new(sorting.clone()), &sender);
    std::thread::Builder::new().name("inputs".into()).spawn(body).context("cannot start a thread")?;
    Ok(ItemReceiver(Some(receiver)))
}

enum ItemMessage {
    Item(PlannedItem),
    Failed(anyhow::Error),
    End,
}

fn send_all(inputs: &Inputs, sorter: &NewSorter<'_>, sender: &SyncSender<ItemMessage>) {
    let mut emit = |item| match sender.send(ItemMessage::Item(item)) {
        Ok(()) => Ok(Flow::Continue(())),
        Err(_) => Ok(Flow::Break(())),
    };
    let end = match inputs.visit(sorter, &mut emit) {
        Ok(()) => ItemMessage::End,
        Err(err) => ItemMessage::Failed(err),
    };
    // After a failure nobody receives.
    _ = sender.send(end);
}

/// Ends only after an explicit end: if the thread died, the items are incomplete, which is an error.
struct ItemReceiver(Option<Receiver<ItemMessage>>);

impl Iterator for ItemReceiver {
    type Item = Result<PlannedItem>;

    fn next(&mut self) -> Option<Result<PlannedItem>> {
        let message = self.0.as_ref()?.recv();
        if !matches!(message, Ok(ItemMessage::Item(_))) {
            self.0 = None;
        }
        match message {
            Ok(ItemMessage::Item(item)) => Some(Ok(item)),
            Ok(ItemMessage::Failed(err)) => Some(Err(err)),
            Ok(ItemMessage::End) => None,
            Err(_) => Some(Err(anyhow!(WorkerPanicked))),
        }
    }
}

fn load(sample: PlannedSample, limits: &ContentLimits) -> Result<LoadedSample, (InputPosition, ItemRefusal)> {
    let PlannedSample { position, key, fields } = sample;
    let mut read_ahead = READ_AHEAD;
    let mut ready = Vec::with_capacity(fields.len());
    for (field, content) in fields {
        match content.read(read_ahead, limits) {
            Ok(data) => {
                if let FieldData::InMemory(held) = &data {
                    read_ahead = read_ahead.saturating_sub(held.len() as u64);
                }
                ready.push((field, data));
            }
            Err(refusal) => {
                return Err((position, ItemRefusal { why: format!("sample {key}: {}", refusal.why), ..refusal }));
            }
        }
    }
    Ok(LoadedSample { position, key, fields: ready })
}

struct OrderedOutput {
    out: ShardWriter,
    tally: Tally,
    last: Option<(InputPosition, String)>,
    buf: Vec<u8>,
}

impl OrderedOutput {
    fn leave_out(&mut self, position: &InputPosition, refusal: &ItemRefusal) {
        if refusal.harmless {
            messages::detail(&format!("{position}: left out: {}", refusal.why));
            self.tally.drop(refusal.code);
        } else {
            self.tally.leave_out(refusal.code, &position.to_string(), &refusal.why);
            progress::add_failed();
        }
    }

    fn write(&mut self, ready: LoadedSample) -> Result<()> {
        let LoadedSample { position, key, fields } = ready;
        if let Some((before, _)) = self.last.as_ref().filter(|(_, last)| *last == key) {
            bail!("{position}: duplicate of the key at {before} (key_returns)");
        }
        self.out.begin(&key, &position.source)?;
        for (field, data) in fields {
            let path = format!("{key}.{field}");
            self.out.writer().new_header(&path, data.bytes(), 0)?;
            match data {
                FieldData::InMemory(data) => self.out.writer().data(&data)?,
                FieldData::OnDisk(file, bytes) => {
                    self.copy(file, bytes).with_context(|| format!("{position}: {path}"))?
                }
            }
        }
        self.tally.done();
        self.last = Some((position, key));
        Ok(())
    }

    fn copy(&mut self, mut file: File, mut bytes: u64) -> Result<()> {
        self.buf.resize(COPY, 0);
        while bytes > 0 {
            let n = bytes.min(COPY as u64) as usize;
            file.read_exact(&mut self.buf[..n]).context("the file shrank while it was read")?;
            self.out.writer().data(&self.buf[..n])?;
            bytes -= n as u64;
        }
        Ok(())
    }
}
