//! From items to an archive: contents are read side by side and written in order.

use std::fs::File;
use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, Result, anyhow, bail};
use tarpipe::messages;
use tarpipe::messages::progress;
use tarpipe::run::pool::{self, Bug, Limits};
use tarpipe::sample::shard::Shard;
use tarpipe::sort::Sorter;
use tarpipe::tally::Tally;

use crate::Args;
use crate::content::{Data, EAGER, Room};
use crate::item::{Item, Job, Place, Refusal};
use crate::keys::Keys;
use crate::recipe::{Flow, Recipe, SorterOf};

/// Items between the reader of the recipe and those who read contents.
const WAITING: usize = 64;
const COPY: usize = 1 << 20;

/// A sample whose content is at hand.
struct Ready {
    place: Place,
    key: String,
    fields: Vec<(String, Data)>,
}

/// Writes all samples and ends the archive.
pub fn all(args: &Args, recipe: Recipe, out: Shard) -> Result<Tally> {
    let mut keys = (!recipe.has_unique_keys() && !args.check).then(|| Keys::new(args));
    let items = items(args, recipe)?;
    let room = Room { limit: args.max_size, tmpdir: args.sorting().tmpdir };
    let worker = move |_| {
        let room = room.clone();
        move |item: Item| Ok(item.and_then(|job| read(job, &room)))
    };
    let mut writing = Writing { out, tally: Tally::default(), last: None, buf: Vec::new() };
    let emit = |ready: Result<Ready, (Place, Refusal)>| {
        match &ready {
            Ok(ready) => keys.as_mut().map_or(Ok(()), |keys| keys.add(&ready.place, &ready.key))?,
            Err((place, refusal)) => writing.leave_out(place, refusal),
        }
        ready.map_or(Ok(()), |ready| writing.write(ready))
    };
    pool::run(Limits::for_workers(args.parallel.threads()), items, |_| 0, worker, emit)?;
    keys.map_or(Ok(()), Keys::refuse_repeats)?;
    writing.out.finish()?;
    Ok(writing.tally)
}

/// The items of a recipe, read on a thread of their own.
fn items(args: &Args, recipe: Recipe) -> Result<impl Iterator<Item = Result<Item>> + Send + use<>> {
    let (sender, receiver) = sync_channel(WAITING);
    let sorting = args.sorting();
    let body = move || send_all(&recipe, &|| Sorter::new(sorting.clone()), &sender);
    std::thread::Builder::new().name("recipe".into()).spawn(body).context("cannot start a thread")?;
    Ok(Received(Some(receiver)))
}

enum Message {
    Item(Item),
    Failed(anyhow::Error),
    End,
}

fn send_all(recipe: &Recipe, sorter: &SorterOf<'_>, sender: &SyncSender<Message>) {
    let mut give = |item| match sender.send(Message::Item(item)) {
        Ok(()) => Ok(Flow::Continue(())),
        Err(_) => Ok(Flow::Break(())),
    };
    let end = match recipe.visit(sorter, &mut give) {
        Ok(()) => Message::End,
        Err(err) => Message::Failed(err),
    };
    // Nobody listens to a run that has failed.
    _ = sender.send(end);
}

/// Ends only with the recipe: a thread that died is no end.
struct Received(Option<Receiver<Message>>);

impl Iterator for Received {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        let message = self.0.as_ref()?.recv();
        if !matches!(message, Ok(Message::Item(_))) {
            self.0 = None;
        }
        match message {
            Ok(Message::Item(item)) => Some(Ok(item)),
            Ok(Message::Failed(err)) => Some(Err(err)),
            Ok(Message::End) => None,
            Err(_) => Some(Err(anyhow!(Bug))),
        }
    }
}

fn read(job: Job, room: &Room) -> Result<Ready, (Place, Refusal)> {
    let Job { place, key, fields } = job;
    let mut eager = EAGER;
    let mut ready = Vec::with_capacity(fields.len());
    for (field, content) in fields {
        match content.read(eager, room) {
            Ok(data) => {
                if let Data::Held(held) = &data {
                    eager = eager.saturating_sub(held.len() as u64);
                }
                ready.push((field, data));
            }
            Err(refusal) => return Err((place, Refusal { why: format!("sample {key}: {}", refusal.why), ..refusal })),
        }
    }
    Ok(Ready { place, key, fields: ready })
}

struct Writing {
    out: Shard,
    tally: Tally,
    last: Option<(Place, String)>,
    buf: Vec<u8>,
}

impl Writing {
    fn leave_out(&mut self, place: &Place, refusal: &Refusal) {
        messages::detail(&format!("{place}: left out: {}", refusal.why));
        if refusal.harmless {
            self.tally.drop(refusal.code);
        } else {
            self.tally.fail(refusal.code);
            progress::add_failed();
        }
    }

    fn write(&mut self, ready: Ready) -> Result<()> {
        let Ready { place, key, fields } = ready;
        if let Some((before, _)) = self.last.as_ref().filter(|(_, last)| *last == key) {
            bail!("{place}: its key stands at {before} already (key_returns)");
        }
        self.out.begin(&key, &place.source)?;
        for (field, data) in fields {
            let path = format!("{key}.{field}");
            self.out.writer().new_header(&path, data.bytes(), 0)?;
            match data {
                Data::Held(data) => self.out.writer().data(&data)?,
                Data::Stored(file, bytes) => self.copy(file, bytes).with_context(|| format!("{place}: {path}"))?,
            }
        }
        self.tally.done();
        self.last = Some((place, key));
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
