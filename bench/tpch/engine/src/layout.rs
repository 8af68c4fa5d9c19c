//! Puts the engine's code at the same offset within a page in every library.
//!
//! The arms' own code comes before it and differs in size. Where a hot loop lies within a cache line alone
//! changes times by a per cent, as much as what is measured here. An empty, page-aligned section at the
//! front of this crate's one object file makes all that follows start on a page; `bench-tpch` checks it.

use core::arch::global_asm;

global_asm!(
    ".pushsection .text.tpch_page,\"axR\",@progbits",
    ".p2align 12",
    ".local tpch_page",
    ".type tpch_page,@function",
    "tpch_page: int3",
    ".size tpch_page,1",
    ".popsection",
);
