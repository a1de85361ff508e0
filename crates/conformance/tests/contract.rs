//! The contract, kept by each implementation.

mod kernel {
    millstream_conformance::contract!(processes: millstream_conformance::kernel::Kernel);
}

mod ours {
    millstream_conformance::contract!(processes: millstream_conformance::ours::Ours);
}

mod ours_direct {
    millstream_conformance::contract!(processes: millstream_conformance::ours::Direct);
}

mod model {
    millstream_conformance::contract!(threads: millstream_conformance::model::Model);
}
