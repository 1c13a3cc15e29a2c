#include "train/coordinator/run_end.hpp"

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "data/networks/model_file.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/protocol/complete_transfers.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {

bool save_model(JobContext& parts, const Gathered& snapshot, bool over) {
    const SampleSetInfo& info = parts.train_set->info();
    const ModelFile model{.graph = parts.graph,
                          .sample_shape = info.sample_shape,
                          .classes = info.targets > 0 ? 0 : parts.graph.classes(),
                          .tokens = info.tokens(),
                          .mean = info.mean,
                          .std = info.std,
                          .target_mean = info.target_mean,
                          .target_std = info.target_std,
                          .vocabulary = info.vocabulary,
                          .parameters = snapshot.parameters,
                          .state = snapshot.state};
    const RunFolder folder(parts.options.out);
    try {
        return write_with_room(folder.checkpoints, run_bytes(parts).model, over, [&] {
            write_model({folder.model, true, FolderRule::kOwn}, model, parts.hdf5);
        });
    } catch (const FileError& error) {
        log_error("the model could not be saved: {}", error.what());
        return false;
    }
}

void dismiss(CommContext comm, Roster& roster, Gathering& gathering, RunWait& wait,
             const Cancellation& cancellation, const std::function<void(const RankNews&)>& lost) {
    constexpr Clock::Seconds kLook{0.1};
    const auto handle = [&](const Message& message) {
        switch (static_cast<MessageKind>(message.kind)) {
            case MessageKind::kFarewell: roster.reported(message); break;
            case MessageKind::kGathered: (void)gathering.arrived(message); break;
            case MessageKind::kRankEvent: lost(decode<RankNews>(message.body)); break;
            default: break;
        }
    };
    wait.end();
    if (cancellation.error()) {
        return;
    }
    send_servers(comm, MessageKind::kStop, Empty());
    roster.stop_workers();
    wait.begin("final report", 0);
    while (!roster.at_work().empty()) {
        wait.set_awaited(roster.at_work());
        if (const auto message = comm.messenger.mailbox(Port::kCoordinator).receive(kLook)) {
            handle(*message);
        }
        if (cancellation.error()) {
            wait.end();
            return;
        }
    }
    wait.end();
    roster.stop_watching();  // who is lost from here on owes nothing
    complete_transfers(
        comm, Port::kCoordinator, "last snapshots",
        [&gathering] { return gathering.coming(); },  // servers are the ranks 0.., as are parts
        handle);
}

}  // namespace cohort
