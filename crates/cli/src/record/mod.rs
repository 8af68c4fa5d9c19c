//! One recording: where its profiles go, which they are, what to say about them.

mod image;
mod output;
mod profiles;
mod session;
mod summary;

pub use image::Image;
pub use output::Output;
pub use profiles::Profiles;
pub use session::{Session, Variables, run_id};
pub use summary::{Outcome, summary, unrecorded};
