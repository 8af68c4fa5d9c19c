//! The engine with the ledger around `std`'s allocator.

use homefree_ledger::Accounted;
use std::alloc::System;
use tpch_engine::export::abi::Account;

#[global_allocator]
static ALLOCATOR: Accounted<System> = Accounted::new(System);

tpch_engine::library!(
    "ours",
    Some(Account {
        balance: ALLOCATOR.ledger().usage_exact().current as i64,
        ..Account::default()
    })
);
