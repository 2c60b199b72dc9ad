//! The section with a searchable gallery of chosen samples.

use std::fmt::Write;

use tarpipe::html::{Escaped, grouped};
use tarpipe::value::size;

use super::sample_facts::GalleryItem;
use super::summary::DatasetSummary;

/// The section as HTML; empty if there is nothing to show.
pub fn section(summary: &DatasetSummary) -> String {
    let mut items: Vec<&GalleryItem> = summary.gallery.iter().flatten().collect();
    if items.is_empty() {
        return String::new();
    }
    items.sort_by_key(|item| item.number);
    let (shown, all) = (grouped(items.len() as u64), grouped(summary.samples));
    let note = if items.len() as u64 == summary.samples {
        format!("All {all} samples.")
    } else {
        format!("{shown} of {all} samples, chosen at random.")
    };
    let mut html = format!(
        "<section id=\"gallery\" aria-labelledby=\"gallery-title\"><h2 id=\"gallery-title\">Gallery</h2>\
         <p class=\"note\">{note}</p>\
         <div class=\"search\"><label for=\"search\">Search</label>\
         <input id=\"search\" type=\"search\" placeholder=\"key, caption or field\" autocomplete=\"off\" spellcheck=\"false\">\
         <kbd>/</kbd><output id=\"found\" for=\"search\" aria-live=\"polite\">{shown} shown</output></div>\
         <ul class=\"cards\">"
    );
    items.iter().for_each(|item| html += &card(item));
    html + "</ul><p id=\"nothing\" class=\"note\" hidden>No sample matches.</p>" + DIALOG + "</section>"
}

/// The script fills it from the card that was opened.
const DIALOG: &str = "<dialog id=\"detail\" aria-labelledby=\"detail-key\">\
    <header><h3 id=\"detail-key\"></h3><button type=\"button\" id=\"close\" aria-label=\"Close\">×</button></header>\
    <div id=\"detail-body\"></div>\
    <footer><button type=\"button\" id=\"previous\">← Previous</button><button type=\"button\" id=\"next\">Next →</button></footer>\
    </dialog>";

fn card(item: &GalleryItem) -> String {
    let (key, caption) = (Escaped(&item.key), Escaped(&item.caption));
    let picture = match &item.picture {
        Ok(picture) => format!(
            "<img src=\"data:image/jpeg;base64,{}\" width=\"{}\" height=\"{}\" alt=\"\">",
            picture.base64, picture.width, picture.height
        ),
        Err(why) => format!("<span class=\"none\">{}</span>", Escaped(why)),
    };
    let mut html = format!(
        "<li class=\"card\"><button type=\"button\" class=\"open\"><span class=\"frame\">{picture}</span>\
         <span class=\"key\"><bdi>{key}</bdi></span><span class=\"caption\" dir=\"auto\">{caption}</span></button><dl hidden>"
    );
    for (name, bytes, held) in &item.fields {
        let (name, held) = (Escaped(name), Escaped(held));
        _ = write!(html, "<dt>{name} <small>{}</small></dt><dd dir=\"auto\">{held}</dd>", size::show(*bytes));
    }
    html + "</dl></li>"
}
