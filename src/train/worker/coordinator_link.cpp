#include "train/worker/coordinator_link.hpp"

#include <fmt/format.h>

#include "cohort/core/error.hpp"

namespace cohort {

CoordinatorLink::Missing CoordinatorLink::from_coordinator() {
    return [] { return std::vector<int>{address().rank}; };
}

bool CoordinatorLink::stopping() {
    take_orders();
    return stopped_ || stop_asked_;
}

void CoordinatorLink::take_orders() {
    if (!stop_asked_ && environment_.stop_requested()) {
        stop_asked_ = true;
        tell(MessageKind::kStopRequested, StopRequest{.rank = comm_.messenger.rank()});
    }
    Mailbox& mailbox = comm_.messenger.mailbox(Port::kWorker);
    while (const auto message = mailbox.receive(Clock::Seconds(0))) {
        handle(*message);
    }
}

void CoordinatorLink::await(std::string_view name, std::uint64_t sequence,
                            const std::function<bool()>& ready, Missing missing, WaitLimit limit,
                            Clock::Seconds look) {
    take_orders();
    if (ready() || stopped_) {
        return;
    }
    const auto wait = comm_.operations.begin(name, sequence, std::move(missing), limit);
    while (!ready() && !stopped_) {
        if (const auto message = comm_.messenger.mailbox(Port::kWorker).receive(look)) {
            handle(*message);
        }
        take_orders();
    }
}

void CoordinatorLink::handle(const Message& message) {
    const auto kind = static_cast<MessageKind>(message.kind);
    if (kind == MessageKind::kStop) {
        stopped_ = true;
        return;
    }
    if (kind == MessageKind::kBegin) {
        begun_ = true;
    }
    handler_(message);
}

void refuse_order(const Message& message) {
    fail<PeerError>({.where = "worker",
                     .what = "got an order that is not for workers of this run",
                     .got = fmt::format("kind {} from rank {}", message.kind, message.from.rank),
                     .hint = "the same program and options on all ranks"});
}

}  // namespace cohort
