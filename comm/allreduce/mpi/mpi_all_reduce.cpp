// kMpi: MPI_Iallreduce for every bucket on a communicator of the members, MPI_Iallgather for the
// summaries; the communication thread drives both. Cost: the library's; memory: two buffers. The
// library names no missing member: see members.hpp. When a member is lost the library never says
// so: the members abandon the round, and leave its memory and the communicator to the library.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <new>
#include <optional>

#include "comm/allreduce/bucket_all_reduce.hpp"
#include "comm/allreduce/mpi/members.hpp"
#include "comm/allreduce/set_up.hpp"
#include "comm/base/communicators.hpp"
#include "comm/base/futex.hpp"

namespace cohort {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kWindow = 8;
constexpr std::chrono::milliseconds kPresencePatience{250};
/// How long the thread keeps looking after something has moved: others move at the same time.
constexpr std::chrono::microseconds kMpiPolling{200};

struct SummaryRecord {
    std::uint64_t round = 0;
    SummaryBytes summary{};
};

struct alignas(64) Line {
    std::array<float, 16> floats;
};

/// What MPI reads and writes; of an abandoned round it may do so for ever.
struct RoundMemory {
    std::array<std::vector<Line>, 2> buffers;
    std::vector<SummaryRecord> summaries;  ///< by member
    SummaryRecord own;

    [[nodiscard]] float* buffer(std::uint64_t ordinal) {
        return buffers[ordinal % 2].data()->floats.data();
    }
};

/// What the caller and the communication thread tell each other.
struct RoundState {
    std::atomic<std::uint64_t> ordinal{0};
    std::atomic<std::int64_t> arrived{0};  ///< buckets
    std::atomic<bool> submitted{false};
    std::atomic<std::uint64_t> done{0};  ///< ordinal of the last round that is over
    std::atomic<bool> broken{false};     ///< a member was lost
    std::atomic<std::uint32_t> bell{0};

    [[nodiscard]] bool over() const { return done.load() == ordinal.load(); }
    void ring_bell() {
        bell.fetch_add(1);
        futex_wake_all(bell);
    }
};

/// The communication thread's part.
class MpiProgress final : public Poller {
public:
    MpiProgress(const AllReduceSetting& setting, int collective)
        : setting_(setting), group_(setting_, collective), presence_(setting_, collective) {}

    /// On the caller's thread. Errors: RingBroken.
    void connect() { comm_ = group_.make(); }

    bool poll() override {
        const std::uint64_t ordinal = state.ordinal.load();
        if (state.done.load() == ordinal || state.broken.load()) {
            return false;
        }
        if (ordinal != ordinal_) {
            ordinal_ = ordinal;
            posted_ = 0;
            submitted_at_.reset();
            told_ = false;
        }
        bool moved = post();
        while (!requests_.empty() && ended(requests_.front())) {
            requests_.pop_front();
            moved = true;
        }
        moved = post() || moved;
        const auto now = steady_clock::now();
        last_move_ = moved ? now : last_move_;
        if (requests_.empty() && submitted_at_) {
            presence_.listen();
            state.done.store(ordinal);
            state.ring_bell();
        } else if (submitted_at_) {
            tell_presence(now);
        }
        return moved || (!requests_.empty() && now - last_move_ < kMpiPolling);
    }

    [[nodiscard]] bool moving() const override {
        return !requests_.empty() && !state.broken.load();
    }

    void members_changed() override {
        if (!state.broken.load() && setting_.lost_member()) {
            state.broken.store(true);
            state.ring_bell();
            group_.give_up();
        }
    }

    [[nodiscard]] std::vector<int> missing() const {
        return presence_.missing(state.ordinal.load());
    }

    /// After the last round. False when MPI may still use this object's memory. A broken
    /// communicator stays: others may never free theirs.
    [[nodiscard]] bool let_go() noexcept {
        bool all_sent = true;
        try {
            setting_.comm.commands.run([&] {
                all_sent = presence_.all_sent();
                if (!state.broken.load()) {
                    check_mpi(MPI_Comm_free(&comm_));
                }
            });
        } catch (const std::exception&) {
            comm_ = MPI_COMM_NULL;  // MPI has ended, and with it the communicator
        }
        return all_sent && state.over();
    }

    RoundMemory memory;
    RoundState state;

private:
    bool post() {
        const std::int64_t arrived = state.arrived.load();
        const std::int64_t before = posted_;
        while (posted_ < arrived && requests_.size() < kWindow) {
            const FloatRange range = setting_.buckets.range(posted_);
            if (!setting_.comm.network.pacer.may_exchange(setting_.traffic_of(range))) {
                break;
            }
            ++posted_;
            check_mpi(MPI_Iallreduce(MPI_IN_PLACE, memory.buffer(ordinal_) + range.begin,
                                     mpi_count(static_cast<std::uint64_t>(range.size())), MPI_FLOAT,
                                     MPI_SUM, comm_, &requests_.emplace_back()));
            setting_.count_traffic(range);
        }
        if (posted_ < setting_.buckets.count() || !state.submitted.load() || submitted_at_ ||
            requests_.size() >= kWindow) {
            return posted_ != before;
        }
        check_mpi(MPI_Iallgather(&memory.own, sizeof(SummaryRecord), MPI_BYTE,
                                 memory.summaries.data(), sizeof(SummaryRecord), MPI_BYTE, comm_,
                                 &requests_.emplace_back()));
        submitted_at_ = steady_clock::now();
        return true;
    }

    /// This member waits: after a while it says so to the others, and listens to them.
    void tell_presence(steady_clock::time_point now) {
        if (!told_ && presence_.all_sent() && now - *submitted_at_ > kPresencePatience) {
            told_ = true;
            presence_.tell(ordinal_);
        }
        if (told_) {
            presence_.listen();
        }
    }

    const AllReduceSetting setting_;
    MemberGroup group_;
    Presence presence_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    std::uint64_t ordinal_ = 0;
    std::int64_t posted_ = 0;  ///< buckets
    std::optional<steady_clock::time_point> submitted_at_;
    bool told_ = false;  ///< the others, that this member waits
    steady_clock::time_point last_move_;
    std::deque<MPI_Request> requests_;
};

class MpiAllReduce final : public BucketAllReduce {
public:
    explicit MpiAllReduce(const AllReduceSetting& setting)
        : BucketAllReduce(setting.buckets), setting_(setting) {
        RoundMemory memory;
        SetUpRecord own = first_record(setting_);
        try {
            const auto lines = static_cast<std::size_t>((buckets().floats + 15) / 16);
            memory.buffers[0].resize(lines);
            memory.buffers[1].resize(lines);
        } catch (const std::bad_alloc&) {
            own.set_error("no memory for the buffers of a ring");
        }
        memory.summaries.resize(setting_.members.size());
        const auto records = gather_checked(setting_, own);
        progress_ = std::make_unique<MpiProgress>(setting_, take_collective(setting_, records));
        progress_->memory = std::move(memory);
        setting_.comm.progress.add_poller(*progress_);
        try {
            progress_->connect();
        } catch (...) {
            setting_.comm.progress.remove_poller(*progress_);
            throw;
        }
    }

    ~MpiAllReduce() override {
        setting_.comm.progress.remove_poller(*progress_);
        if (!progress_->let_go()) {
            static_cast<void>(progress_.release());
        }
    }

    [[nodiscard]] AllReduceAlgorithm algorithm() const noexcept override {
        return AllReduceAlgorithm::kMpi;
    }

private:
    float* start(std::uint64_t ordinal) override {
        RoundState& state = progress_->state;
        state.arrived.store(0);
        state.submitted.store(false);
        state.ordinal.store(ordinal);
        return progress_->memory.buffer(ordinal);
    }

    void arrive(std::int64_t buckets) override {
        progress_->state.arrived.store(buckets);
        setting_.comm.network.bells.ring_own();
    }

    void submit(const SummaryBytes& summary) override {
        progress_->memory.own = {round(), summary};
        progress_->state.submitted.store(true);
        arrive(buckets().count());
    }

    std::optional<std::vector<SummaryBytes>> complete() override {
        RoundState& state = progress_->state;
        std::optional<OperationBoard::Wait> named;
        ShortPatience patience;
        while (!state.over()) {
            if (state.broken.load()) {
                return std::nullopt;
            }
            if (patience.look_again()) {
                continue;
            }
            if (!named) {
                named = setting_.comm.operations.begin("ring round", round(),
                                                       [this] { return progress_->missing(); });
            }
            const std::uint32_t before = state.bell.load();
            if (!state.over() && !state.broken.load()) {
                futex_sleep(state.bell, before);
            }
        }
        return collect();
    }

    [[nodiscard]] std::vector<SummaryBytes> collect() const {
        const std::vector<SummaryRecord>& records = progress_->memory.summaries;
        std::vector<SummaryBytes> summaries;
        for (std::size_t i = 0; i < records.size(); ++i) {
            if (records[i].round != round()) {
                setting_.fail_rounds_differ(i, round(), records[i].round);
            }
            summaries.push_back(records[i].summary);
        }
        return summaries;
    }

    const AllReduceSetting setting_;
    std::unique_ptr<MpiProgress> progress_;
};

}  // namespace

std::unique_ptr<AllReduce> make_mpi_all_reduce(const AllReduceSetting& setting) {
    return std::make_unique<MpiAllReduce>(setting);
}

}  // namespace cohort
