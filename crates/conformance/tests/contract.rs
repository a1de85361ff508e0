//! The contract, kept by each implementation.

mod kernel {
    millstream_conformance::contract!(processes: millstream_conformance::kernel::Kernel);
}

mod ours {
    millstream_conformance::contract!(processes: millstream_conformance::ours::Ours);
}

mod c {
    millstream_conformance::contract!(processes: millstream_conformance::c::C);
}

mod ours_direct {
    millstream_conformance::contract!(processes: millstream_conformance::ours::Direct);
}

mod ours_in_place {
    millstream_conformance::contract!(processes: millstream_conformance::in_place::InPlace<true>);
}

mod ours_quiet {
    millstream_conformance::contract!(processes: millstream_conformance::ours::Quiet<false>);
}

mod ours_quiet_and_dozing {
    millstream_conformance::contract!(processes: millstream_conformance::ours::Quiet<true>);
}

mod ours_reserved_and_borrowed_by_copy {
    millstream_conformance::contract!(processes: millstream_conformance::in_place::InPlace<false>);
}

mod model {
    millstream_conformance::contract!(threads: millstream_conformance::model::Model);
}
