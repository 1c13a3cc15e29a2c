#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/train/local_rounds.hpp"
#include "support/train/test_run.hpp"
#include "support/train/worker_rig.hpp"
#include "train/protocol/protocol_ring.hpp"

namespace cohort::test {

/// Thrown into a worker's thread to end it in mid-round.
struct Died : std::runtime_error {
    using std::runtime_error::runtime_error;
};

constexpr std::uint64_t kAnyRound = std::numeric_limits<std::uint64_t>::max();

/// A ring's plan: these members, the others of `live` ride.
inline SyncPlan ring_plan(const std::vector<int>& members, const std::vector<int>& riders = {}) {
    SyncPlan plan;
    plan.name = riders.empty() ? "ring" : "ring:" + std::to_string(members.size());
    plan.cohorts.push_back(
        {.members = members, .riders = riders, .quorum = static_cast<int>(members.size())});
    return plan;
}

/// The coordinator's messenger with its orders on record.
class RecordingMessenger final : public Messenger {
public:
    explicit RecordingMessenger(Messenger& real) : real_(real) {}
    [[nodiscard]] int rank() const noexcept override { return real_.rank(); }
    void send(Address to, Port from, std::uint16_t kind, std::vector<std::byte> body) override {
        if (kind == static_cast<std::uint16_t>(MessageKind::kRound)) {
            const auto order = decode<RoundOrder>(body);
            rounds[order.round] = order;
            epoch = std::max(epoch, order.epoch);
            if (on_round) {
                on_round(order);
            }
        } else if (kind == static_cast<std::uint16_t>(RingMessageKind::kRecover)) {
            epoch = decode<RecoverOrder>(body).epoch;
        } else if (kind == static_cast<std::uint16_t>(MessageKind::kLease)) {
            const auto order = decode<LeaseOrder>(body);
            leases[order.lease] = order;
        }
        if (dropped.contains(kind) || excluded.contains(to.rank)) {
            return;
        }
        Delayed message{.round = 0, .to = to, .from = from, .kind = kind, .body = std::move(body)};
        if (kind == static_cast<std::uint16_t>(MessageKind::kRound)) {
            message.round = decode<RoundOrder>(message.body).round;
        }
        delayed_[to.rank].push_back(std::move(message));
        send_delayed();
    }
    /// Whether a push of a rider has arrived that no round contains yet.
    void note_push(bool waits) {
        push_waits_ = waits;
        send_delayed();
    }
    /// The rank is sent nothing any more, nor what was kept back.
    void exclude(int rank) {
        excluded.insert(rank);
        delayed_.erase(rank);
    }
    [[nodiscard]] bool in_a_round(const PushId& push) const {
        return std::ranges::any_of(rounds, [&push](const auto& round) {
            return std::ranges::any_of(round.second.members, [&push](const RoundMember& member) {
                return std::ranges::any_of(
                    member.riders, [&push](const auto& rider) { return rider.push == push; });
            });
        });
    }
    [[nodiscard]] std::shared_ptr<OutgoingTransfer> start_transfer(
        Address to, Port from, std::uint16_t kind, std::vector<std::byte> body,
        std::span<const std::byte> data, ChunkOrder order,
        std::shared_ptr<const void> owner) override {
        return real_.start_transfer(to, from, kind, std::move(body), data, order, std::move(owner));
    }
    [[nodiscard]] Mailbox& mailbox(Port port) override { return real_.mailbox(port); }
    void set_sink(Port port, TransferSink* sink) override { real_.set_sink(port, sink); }
    [[nodiscard]] TrafficCounters counters() const override { return real_.counters(); }

    std::function<void(const RoundOrder&)> on_round;  ///< before a member knows of it
    std::map<std::uint64_t, RoundOrder> rounds;       ///< by number
    std::map<std::uint64_t, LeaseOrder> leases;       ///< by id
    std::uint64_t epoch = 0;                          ///< of the newest order
    std::set<int> excluded;                           ///< world ranks that are sent nothing
    std::set<std::uint16_t> dropped;                  ///< kinds that get lost
    /// The order of a round after this one is kept back until that round or a later one contains a
    /// rider's push, or a push has arrived that no round contains yet; messages to the same rank
    /// stay behind it. So the budget does not end before slow riders have pushed.
    std::uint64_t riders_from = kAnyRound;

private:
    struct Delayed {
        std::uint64_t round;  ///< 0: no order of a round
        Address to;
        Port from;
        std::uint16_t kind;
        std::vector<std::byte> body;
    };
    /// The newest round whose order may be sent.
    [[nodiscard]] std::uint64_t allowed() const {
        std::uint64_t newest = 0;  // of the rounds with a rider's push
        for (const auto& [number, order] : rounds) {
            for (const RoundMember& member : order.members) {
                newest = member.riders.empty() ? newest : number;
            }
        }
        return push_waits_ ? kAnyRound : std::max(riders_from, newest);
    }
    void send_delayed() {
        for (auto& [rank, messages] : delayed_) {
            for (; !messages.empty() && messages.front().round <= allowed(); messages.pop_front()) {
                Delayed& first = messages.front();
                real_.send(first.to, first.from, first.kind, std::move(first.body));
            }
        }
    }
    Messenger& real_;
    bool push_waits_ = false;
    std::map<int, std::deque<Delayed>> delayed_;  ///< by rank
};

/// A whole job on rings: workers on threads, the real flow on the test's.
class RingJob : public WorkerRig, private TransferSink {
public:
    RingJob(const std::string& model, int workers, SyncPlan plan, std::int64_t samples,
            bool measure_gradients = false)
        : WorkerRig(model, workers, 0),
          messenger(network.messenger(0)),
          books(job, workers, samples, std::move(plan), Architecture::kRing, measure_gradients),
          flow(make_ring_driver({messenger, network.operations(0), network.map()}, job, books)) {
        network.messenger(0).set_sink(Port::kCoordinator, this);
    }
    RingJob(const RingJob&) = delete;
    RingJob& operator=(const RingJob&) = delete;
    ~RingJob() override { stop(); }

    void begin(const UpdateExtras& extras = {}) {
        for (int worker = 0; worker < network.map().workers(); ++worker) {
            start(rounds.factory(worker));
        }
        begin_parts = flow->begin({}, extras);
    }

    /// Lets the job go on until `done`; a worker that has died is lost.
    void until(const std::function<bool()>& done) {
        const SteadyClock clock;
        const Clock::Seconds limit = clock.now() + kPatience;
        while (!done()) {
            if (clock.now() > limit) {
                throw std::runtime_error("the job hangs after " +
                                         std::to_string(books.updates.size()) + " updates, " +
                                         std::to_string(books.applied()) + " samples and " +
                                         std::to_string(books.plans.size()) + " installs");
            }
            if (const auto message = network.messenger(0)
                                         .mailbox(Port::kCoordinator)
                                         .receive(Clock::Seconds(0.01))) {
                handle(*message);
            }
            bury();
            messenger.note_push(std::ranges::any_of(reports, [this](const auto& report) {
                const PushId& push = report.second.ticket.id;
                return !lost.contains(push.worker) && !messenger.in_a_round(push);
            }));
        }
    }
    void until_updates(std::size_t updates) {
        until([&] { return books.updates.size() >= updates; });
    }
    /// What `holds` kept back comes now, in the order of `kinds`; nothing is kept back after that.
    void release(const std::vector<std::uint16_t>& kinds) {
        holds = {};
        for (const std::uint16_t kind : kinds) {
            for (const Message& message : held) {
                if (message.kind == kind) {
                    handle(message);
                }
            }
        }
        held.clear();
    }
    /// To the end of the budget.
    void finish() {
        messenger.riders_from = kAnyRound;
        until([&] { return books.stopping() && flow->quiet(); });
    }

    /// The worker's rank has been excluded.
    void lose(int worker) {
        if (lost.insert(worker).second) {
            messenger.exclude(worker);
            rounds.lose(worker);
            flow->lost(worker);
        }
    }
    void come_back(int worker) {
        lost.erase(worker);
        messenger.excluded.erase(worker);
        rounds.come_back(worker);
        flow->joined(worker);
    }

    /// What a member holds, parameters then state; only when nothing is under way.
    std::vector<float> gather(int worker) {
        RoundOrder ask;
        ask.epoch = messenger.epoch;
        ask.reporter = worker;
        ask.snapshot.gather = 77;
        gathered_.clear();
        order(worker, MessageKind::kRound, ask);
        bool here = false;
        on_other = [&](const Message& message) {
            here = here || message.kind == static_cast<std::uint16_t>(MessageKind::kGathered);
        };
        until([&] { return here; });
        on_other = {};
        return gathered_;
    }

    LocalRounds rounds;
    RecordingMessenger messenger;
    TestRun books;
    std::unique_ptr<UpdateDriver> flow;
    std::set<int> lost;
    int begin_parts = 0;                          ///< of the evaluation to begin with
    std::map<std::uint64_t, PushReport> reports;  ///< of riders, by lease
    std::function<void(const Message&)> on_message;
    std::function<bool(const Message&)> holds;     ///< keeps a message back, see release()
    std::vector<Message> held;                     ///< kept back
    std::function<void(const Message&)> on_other;  ///< what the flow does not want

private:
    void handle(const Message& message) {
        if (lost.contains(message.from.rank)) {
            return;  // dropped by the network
        }
        if (holds && holds(message)) {
            held.push_back(message);
            return;
        }
        if (message.kind == static_cast<std::uint16_t>(MessageKind::kPushReport)) {
            const auto report = decode<PushReport>(message.body);
            reports[report.ticket.lease] = report;
        }
        if (on_message) {
            on_message(message);
        }
        if (!flow->handle(message) && on_other) {
            on_other(message);
        }
    }
    /// Whoever has died is noticed; other errors end the test.
    void bury() {
        for (int worker = 0; worker < network.map().workers(); ++worker) {
            const std::exception_ptr error = ended_with(static_cast<std::size_t>(worker));
            if (!error || lost.contains(worker)) {
                continue;
            }
            try {
                std::rethrow_exception(error);
            } catch (const Died&) {
                lose(worker);
            }
        }
    }
    std::span<std::byte> accept(const Message& /*announcement*/, std::uint64_t bytes) override {
        gathered_.resize(bytes / sizeof(float));
        return std::as_writable_bytes(std::span(gathered_));
    }
    std::vector<float> gathered_;
};

}  // namespace cohort::test
