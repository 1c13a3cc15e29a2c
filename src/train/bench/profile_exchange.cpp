// Between two ranks: a small message there and back for the latency, then large transfers, each
// answered by a small message, for the rate.
#include <algorithm>
#include <optional>
#include <vector>

#include "cohort/comm/world.hpp"
#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "train/bench/profile_measure.hpp"

namespace cohort {
namespace {

constexpr std::uint16_t kPing = 1;
constexpr std::uint16_t kBulk = 2;
constexpr std::size_t kBulkBytes = std::size_t{16} << 20;
constexpr int kWarmup = 3;
constexpr Clock::Seconds kPeerWait{60};

/// One end of the two; rank 0 asks, the other answers.
class End final : public TransferSink {
public:
    End(World& world, int peer) : world_(world), peer_(peer), memory_(kBulkBytes) {
        world_.messenger().set_sink(Port::kWorker, this);
    }
    ~End() override { world_.messenger().set_sink(Port::kWorker, nullptr); }
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    std::span<std::byte> accept(const Message& /*announcement*/, std::uint64_t bytes) override {
        return bytes <= memory_.size() ? std::span(memory_).first(bytes) : std::span<std::byte>();
    }
    /// Median seconds from the question to its answer.
    double ask(std::uint16_t kind, std::int64_t repetitions) {
        const SteadyClock clock;
        const auto there_and_back = [&] {
            const Clock::Seconds before = clock.now();
            if (kind == kBulk) {
                world_.messenger()
                    .start_transfer({peer_, Port::kWorker}, Port::kWorker, kind, {}, memory_,
                                    ChunkOrder::kBackward, nullptr)
                    ->release(memory_.size());
            } else {
                send();
            }
            receive();
            return (clock.now() - before).count();
        };
        return median_of(repetitions, there_and_back, kWarmup);
    }
    void answer(std::int64_t repetitions) {
        for (std::int64_t i = -kWarmup; i < repetitions; ++i) {
            receive();
            send();
        }
    }

private:
    void send() { world_.messenger().send({peer_, Port::kWorker}, Port::kWorker, kPing, {}); }
    void receive() {
        const auto wait =
            world_.operations().begin("answer", 0, [this] { return std::vector<int>{peer_}; });
        while (!world_.messenger().mailbox(Port::kWorker).receive(kPeerWait)) {
        }
    }

    World& world_;
    int peer_;
    std::vector<std::byte> memory_;
};

MeasuredExchange measure(World& world, std::int64_t repetitions) {
    const int last = world.size() - 1;
    const std::vector<RankInfo>& ranks = world.map().ranks;
    MeasuredExchange result{.rank = world.rank(),
                            .same_host = ranks.front().node == ranks.back().node};
    std::string met;
    std::optional<End> end;
    if (world.rank() == 0 || world.rank() == last) {
        end.emplace(world, last - world.rank());
    }
    (void)world.agree(ExitCode::kDone, met);
    if (world.rank() == 0) {
        const double small_s = end->ask(kPing, repetitions);
        const double bulk_s = end->ask(kBulk, repetitions);
        result.latency_s = small_s / 2;
        result.bytes_per_s =
            static_cast<double>(kBulkBytes) / std::max(bulk_s - small_s, bulk_s / 2);
    } else if (end) {
        end->answer(repetitions);
        end->answer(repetitions);
    }
    (void)world.agree(ExitCode::kDone, met);
    return result;
}

}  // namespace

MeasuredExchange measure_exchange(std::int64_t repetitions) {
    World world(WorldOptions{});
    try {
        if (world.size() < 2) {
            fail<UsageError>({.where = "cohort profile",
                              .what = "messages need two ranks",
                              .expected = "mpirun -n 2"});
        }
        const MeasuredExchange result = measure(world, repetitions);
        world.finalize();
        return result;
    } catch (const Error& error) {
        world.abort(error.exit_code(), error.what());
    }
}

}  // namespace cohort
