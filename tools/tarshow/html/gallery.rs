//! The gallery: a searchable grid of the samples that were chosen.

use std::fmt::Write;

use tarpipe::value::size;

use super::facts::Exhibit;
use super::markup::{Text, grouped};
use super::summary::Summary;

/// The section with the gallery; empty where there is nothing to show.
pub fn section(summary: &Summary) -> String {
    let mut exhibits: Vec<&Exhibit> = summary.gallery.iter().flatten().collect();
    if exhibits.is_empty() {
        return String::new();
    }
    exhibits.sort_by_key(|exhibit| exhibit.number);
    let (shown, all) = (grouped(exhibits.len() as u64), grouped(summary.samples));
    let note = if exhibits.len() as u64 == summary.samples {
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
    exhibits.iter().for_each(|exhibit| html += &card(exhibit));
    html + "</ul><p id=\"nothing\" class=\"note\" hidden>No sample matches.</p>" + DIALOG + "</section>"
}

/// Filled by the script from the card that is opened.
const DIALOG: &str = "<dialog id=\"detail\" aria-labelledby=\"detail-key\">\
    <header><h3 id=\"detail-key\"></h3><button type=\"button\" id=\"close\" aria-label=\"Close\">×</button></header>\
    <div id=\"detail-body\"></div>\
    <footer><button type=\"button\" id=\"previous\">← Previous</button><button type=\"button\" id=\"next\">Next →</button></footer>\
    </dialog>";

fn card(exhibit: &Exhibit) -> String {
    let (key, caption) = (Text(&exhibit.key), Text(&exhibit.caption));
    let picture = match &exhibit.picture {
        Ok(picture) => format!(
            "<img src=\"data:image/jpeg;base64,{}\" width=\"{}\" height=\"{}\" alt=\"\">",
            picture.base64, picture.width, picture.height
        ),
        Err(why) => format!("<span class=\"none\">{}</span>", Text(why)),
    };
    let mut html = format!(
        "<li class=\"card\"><button type=\"button\" class=\"open\"><span class=\"frame\">{picture}</span>\
         <span class=\"key\"><bdi>{key}</bdi></span><span class=\"caption\" dir=\"auto\">{caption}</span></button><dl hidden>"
    );
    for (name, bytes, held) in &exhibit.fields {
        let (name, held) = (Text(name), Text(held));
        _ = write!(html, "<dt>{name} <small>{}</small></dt><dd dir=\"auto\">{held}</dd>", size::show(*bytes));
    }
    html + "</dl></li>"
}
