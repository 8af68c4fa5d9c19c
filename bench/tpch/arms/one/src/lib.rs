//! The engine with an accounting allocator that makes one thread-local access a call.

mod wrapper;

use tpch_engine::export::abi::Account;
use wrapper::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

tpch_engine::library!(
    "one",
    Some(Account {
        balance: wrapper::balance(),
        ..Account::default()
    })
);
