#include "python/module/final_values.hpp"

#include <string>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// Beyond those of the training's protocol, messages of which may still lie in the mailbox.
constexpr std::uint16_t kFinalValues = 0xF000;

void send(World& world, const FinalValues& values) {
    for (int rank = 1; rank < world.size(); ++rank) {
        const Address to{.rank = rank, .port = Port::kWorker};
        if (world.membership().excluded(rank)) {
            continue;
        }
        if (!values) {
            world.messenger().send(to, Port::kWorker, kFinalValues, {});
            continue;
        }
        const auto bytes = std::as_bytes(std::span(*values));
        world.messenger()
            .start_transfer(to, Port::kWorker, kFinalValues, {}, bytes, ChunkOrder::kForward,
                            values)
            ->release(bytes.size());
    }
}

}  // namespace

void FinalValuesExchange::share(World& world, const FinalValues& own, bool failed) {
    values_ = failed ? nullptr : own;
    if (world.size() == 1) {
        return;
    }
    world.messenger().set_sink(Port::kWorker, this);
    std::string nothing;
    const ExitCode code = world.agree(failed ? ExitCode::kPeer : ExitCode::kDone, nothing);
    if (world.rank() != 0) {
        if (code != ExitCode::kDone) {
            throw Error(code, "");
        }
        values_ = receive(world);
    } else if (code == ExitCode::kDone) {
        send(world, values_);
    }
}

/// On the communication thread.
std::span<std::byte> FinalValuesExchange::accept(const Message& announcement, std::uint64_t bytes) {
    if (announcement.kind != kFinalValues || bytes % sizeof(float) != 0) {
        return {};
    }
    received_ = std::make_shared<std::vector<float>>(bytes / sizeof(float));
    return std::as_writable_bytes(std::span(*received_));
}

FinalValues FinalValuesExchange::receive(World& world) const {
    constexpr Clock::Seconds kLook{0.1};
    const auto wait =
        world.operations().begin("final parameters", 0, [] { return std::vector<int>{0}; });
    for (;;) {
        const auto message = world.messenger().mailbox(Port::kWorker).receive(kLook);
        if (message && message->kind == kFinalValues) {
            return received_;
        }
    }
}

}  // namespace cohort
