#include "train/worker/servers/worker_rounds.hpp"

#include <utility>

namespace cohort {
namespace {

class RingRounds final : public RoundExchange {
public:
    RingRounds(World& world, std::vector<int> members, std::int64_t floats,
               const RingOptions& options)
        : ring_(world, std::move(members), floats, options) {}
    [[nodiscard]] std::span<float> begin(std::uint64_t round) override {
        return ring_.begin(round);
    }
    void ready(std::int64_t begin, std::int64_t end) override { ring_.ready(begin, end); }
    void finish(const RingTail& tail) override { ring_.finish(tail); }
    [[nodiscard]] std::optional<std::vector<RingTail>> wait() override { return ring_.wait(); }
    [[nodiscard]] RingTimes times() const noexcept override { return ring_.times(); }
    [[nodiscard]] bool on_device() const noexcept override { return ring_.on_device(); }

private:
    RingExchange ring_;
};

class LoneRounds final : public RoundExchange {
public:
    explicit LoneRounds(std::int64_t floats) : buffer_(static_cast<std::size_t>(floats)) {}
    [[nodiscard]] std::span<float> begin(std::uint64_t /*round*/) override { return buffer_; }
    void ready(std::int64_t /*begin*/, std::int64_t /*end*/) override {}
    void finish(const RingTail& tail) override { tail_ = tail; }
    [[nodiscard]] std::optional<std::vector<RingTail>> wait() override { return {{tail_}}; }
    [[nodiscard]] RingTimes times() const noexcept override { return {}; }

private:
    std::vector<float> buffer_;
    RingTail tail_;
};

}  // namespace

RoundExchangeFactory ring_exchanges(World& world, const RingOptions& options) {
    return [&world, options](const std::vector<int>& members, std::int64_t floats,
                             const RoundScope& scope) {
        RingOptions scoped = options;
        scoped.watched = scope.watched;
        scoped.epoch = scope.epoch;
        scoped.device = scope.device;
        scoped.stream = scope.stream;
        return std::make_unique<RingRounds>(world, members, floats, scoped);
    };
}

std::unique_ptr<RoundExchange> make_lone_exchange(std::int64_t floats) {
    return std::make_unique<LoneRounds>(floats);
}

}  // namespace cohort
