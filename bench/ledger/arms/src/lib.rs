//! What the rejected ways of counting share. Each is as short as we know how to make it and does less than it would
//! have to (no exit hook, no peak): what is measured is a lower bound of its cost.

mod counted;
mod place;

pub use counted::{Count, Counted};
pub use place::{add, distance, get, set};
