//! Samples as pictures: thumbnails under limits, cards with key and caption, and the contact sheet made of them.

pub mod card;
pub mod contact_sheet;
pub mod font;
pub mod thumbnail;
