// kMpi: MPI_Iallreduce for every bucket on a communicator of the members, MPI_Iallgather for the
// tails, moved on by the communication thread. Cost: the library's; memory: two buffers. The
// library says nothing of who is missing: a member that has waited for a while tells the others
// that it is there, with one small message to each. When a member is lost the library never says
// so: the members leave the round, its memory and the communicator to the library.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <new>
#include <optional>
#include <thread>

#include "comm/allreduce/ring_engine.hpp"
#include "comm/allreduce/ring_futex.hpp"
#include "comm/allreduce/ring_set_up.hpp"
#include "comm/allreduce/ring_wait.hpp"
#include "comm/base/communicators.hpp"
#include "comm/base/silent_links.hpp"

namespace cohort {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kWindow = 8;
constexpr int kPresenceTag = 3;  // on the ring communicator
// Of the creation of communicators: below this one, a few for each exchange, those of later ones
// lower. One that was given up still has messages under way, and Open MPI lets the lowest tag go
// first.
constexpr int kLastGroupTag = 1 << 30;
constexpr int kGroupTags = 16;
constexpr int kGroups = (1 << 29) / kGroupTags;
constexpr std::chrono::milliseconds kPresencePatience{250};
/// How long the thread keeps looking after something has moved: others move at the same time.
constexpr std::chrono::microseconds kMpiPolling{200};

struct TailRecord {
    std::uint64_t round = 0;
    RingTail tail;
};

struct Presence {
    std::int64_t exchange = 0;
    std::uint64_t ordinal = 0;
    std::int64_t member = 0;
};

struct alignas(64) Line {
    std::array<float, 16> floats;
};

/// What MPI reads and writes; of a round that is given up it may do so for ever.
struct Held {
    std::array<std::vector<Line>, 2> buffers;
    std::vector<TailRecord> tails;
    TailRecord own_tail;
    Presence presence;
};

/// A communicator in the making; outlives the engine when that gives up.
struct GroupMaking {
    static constexpr std::uint32_t kRunning = 0;
    static constexpr std::uint32_t kMade = 1;
    static constexpr std::uint32_t kGivenUp = 2;
    MPI_Comm parent = MPI_COMM_NULL;
    std::vector<int> members;
    int tag = 0;
    MPI_Comm made = MPI_COMM_NULL;
    std::exception_ptr failure;
    std::atomic<std::uint32_t> state{kRunning};

    void make() noexcept {
        const SilentLinks silent;
        try {
            made = create_group(parent, members, tag);
        } catch (...) {
            failure = std::current_exception();
        }
        end(kMade);
    }
    /// The first one counts.
    void end(std::uint32_t how) noexcept {
        std::uint32_t running = kRunning;
        state.compare_exchange_strong(running, how);
        futex_wake_all(state);
    }
};

class MpiEngine final : public RingEngine, public Poller {
public:
    explicit MpiEngine(const RingSetting& setting)
        : setting_(setting), held_(std::make_unique<Held>()), present_(setting.members.size()) {
        held_->tails.resize(setting.members.size());
        SetUpRecord own;
        own.collective = setting_.thread.last_collective().load() + 1;
        own.floats = setting_.buckets.floats;
        own.bucket_floats = setting_.buckets.size;
        own.algorithm = static_cast<std::int64_t>(setting_.asked);
        const auto lines = static_cast<std::size_t>((setting_.buckets.floats + 15) / 16);
        try {
            held_->buffers[0].resize(lines);
            held_->buffers[1].resize(lines);
        } catch (const std::bad_alloc&) {
            own.set_error("no memory for the buffers of a ring");
        }
        const auto records = gather_records(setting_, own);
        check_records(setting_.thread.map(), setting_.members, records);
        for (const SetUpRecord& record : records) {
            exchange_ = std::max(exchange_, record.collective);
        }
        setting_.thread.last_collective().store(exchange_);
        setting_.thread.add_poller(*this);
        try {
            make_communicator();
        } catch (...) {
            setting_.thread.remove_poller(*this);
            throw;
        }
    }

    ~MpiEngine() override {
        setting_.thread.remove_poller(*this);
        const bool over = done_ordinal_.load() == ordinal_.load();
        if (!let_go() || !over) {
            static_cast<void>(held_.release());  // the library still has a hand on it
        }
    }

    float* begin(std::uint64_t ordinal, std::uint64_t round) override {
        round_ = round;
        arrived_.store(0);
        handed_.store(false);
        ordinal_.store(ordinal);
        return buffer(ordinal);
    }

    void arrive(std::int64_t buckets) override {
        arrived_.store(buckets);
        setting_.thread.wake();
    }

    void hand_in(const RingTail& tail) override {
        held_->own_tail = {round_, tail};
        handed_.store(true);
        arrive(setting_.buckets.count());
    }

    std::optional<std::vector<RingTail>> wait() override {
        const std::uint64_t ordinal = ordinal_.load();
        std::optional<OperationBoard::Wait> named;
        ShortPatience patience;
        while (done_ordinal_.load() != ordinal) {
            if (broken_.load()) {
                return std::nullopt;
            }
            if (patience.look_again()) {
                continue;
            }
            if (!named) {
                named = setting_.thread.operations().begin("ring round", round_,
                                                           [this] { return missing(); });
            }
            const std::uint32_t before = bell_.load();
            if (done_ordinal_.load() != ordinal && !broken_.load()) {
                futex_sleep(bell_, before);
            }
        }
        return collect();
    }

    bool poll() override {
        const std::uint64_t ordinal = ordinal_.load();
        if (done_ordinal_.load() == ordinal || broken_.load()) {
            return false;
        }
        if (ordinal != poll_ordinal_) {
            poll_ordinal_ = ordinal;
            posted_ = 0;
            tail_posted_ = false;
            presence_sent_ = false;
        }
        bool moved = post();
        while (!requests_.empty() && test(requests_.front())) {
            requests_.pop_front();
            moved = true;
        }
        moved = post() || moved;
        const auto now = steady_clock::now();
        last_move_ = moved ? now : last_move_;
        if (requests_.empty() && tail_posted_) {
            listen();
            done_ordinal_.store(ordinal);
            ring_bell();
        } else if (tail_posted_) {
            watch_presence(ordinal, now);
        }
        return moved || (!requests_.empty() && now - last_move_ < kMpiPolling);
    }

    bool moving() const override { return !requests_.empty() && !broken_.load(); }

    void members_changed() override {
        if (!broken_.load() && setting_.lost_member()) {
            broken_.store(true);
            ring_bell();
            group_->end(GroupMaking::kGivenUp);
        }
    }

private:
    void ring_bell() {
        bell_.fetch_add(1);
        futex_wake_all(bell_);
    }

    /// Blocking for the members, but not for this rank's communication thread, if MPI allows that:
    /// when a member dies meanwhile it never ends.
    void make_communicator() {
        group_->parent = setting_.thread.communicators().ring;
        group_->members = setting_.members;
        group_->tag = kLastGroupTag - (exchange_ % kGroups + 1) * kGroupTags;
        int level = MPI_THREAD_SINGLE;
        check_mpi(MPI_Query_thread(&level));
        const auto named =
            setting_.thread.operations().begin("ring communicator", 0, [this] { return others(); });
        if (level < MPI_THREAD_MULTIPLE) {
            setting_.thread.run([this] { group_->make(); });
        } else {
            std::thread maker([group = group_] { group->make(); });
            while (group_->state.load() == GroupMaking::kRunning) {
                futex_sleep(group_->state, GroupMaking::kRunning);
            }
            if (group_->state.load() == GroupMaking::kGivenUp) {
                maker.detach();
                setting_.fail_broken();
            }
            maker.join();
        }
        if (group_->failure) {
            std::rethrow_exception(group_->failure);
        }
        comm_ = group_->made;
    }

    [[nodiscard]] float* buffer(std::uint64_t ordinal) {
        return held_->buffers[ordinal % 2].data()->floats.data();
    }

    static bool test(MPI_Request& request) {
        int done = 0;
        check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        return done != 0;
    }

    bool post() {
        const std::int64_t arrived = arrived_.load();
        const std::int64_t before = posted_;
        while (posted_ < arrived && requests_.size() < kWindow) {
            const FloatRange range = setting_.buckets.range(posted_);
            if (!setting_.thread.pacer().may_exchange(traffic_of(setting_, range))) {
                break;
            }
            ++posted_;
            MPI_Request request = MPI_REQUEST_NULL;
            check_mpi(MPI_Iallreduce(MPI_IN_PLACE, buffer(poll_ordinal_) + range.begin,
                                     mpi_count(static_cast<std::uint64_t>(range.size())), MPI_FLOAT,
                                     MPI_SUM, comm_, &request));
            count_traffic(range);
            requests_.push_back(request);
        }
        if (posted_ < setting_.buckets.count() || !handed_.load() || tail_posted_ ||
            requests_.size() >= kWindow) {
            return posted_ != before;
        }
        tail_posted_ = true;
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Iallgather(&held_->own_tail, sizeof(TailRecord), MPI_BYTE,
                                 held_->tails.data(), sizeof(TailRecord), MPI_BYTE, comm_,
                                 &request));
        requests_.push_back(request);
        handed_at_ = steady_clock::now();
        return true;
    }

    /// What a ring would move; what the library moves it does not tell.
    void count_traffic(const FloatRange& range) {
        const auto members = static_cast<std::uint64_t>(setting_.members.size());
        const std::uint64_t bytes = traffic_of(setting_, range);
        setting_.thread.count_sent(bytes, 2 * (members - 1));
        setting_.thread.count_received(bytes, 2 * (members - 1));
    }

    /// This member waits: after a while it says so to the others, and listens to them.
    void watch_presence(std::uint64_t ordinal, steady_clock::time_point now) {
        MPI_Comm ring = setting_.thread.communicators().ring;
        if (!presence_sent_ && told() && now - handed_at_ > kPresencePatience) {
            presence_sent_ = true;
            held_->presence = {exchange_, ordinal, setting_.self};
            present_[static_cast<std::size_t>(setting_.self)].store(ordinal);
            for (const int rank : setting_.members) {
                if (rank != setting_.thread.rank()) {
                    check_mpi(MPI_Isend(&held_->presence, sizeof(Presence), MPI_BYTE, rank,
                                        kPresenceTag, ring, &presence_sends_.emplace_back()));
                }
            }
        }
        if (presence_sent_) {
            listen();
        }
    }

    /// What this member has said has left.
    bool told() {
        std::erase_if(presence_sends_, [](MPI_Request& request) { return test(request); });
        return presence_sends_.empty();
    }

    /// Takes in what the others have said; at the end of every round, or it would pile up at a
    /// member that never waits.
    void listen() {
        MPI_Comm ring = setting_.thread.communicators().ring;
        for (int found = 1; found != 0;) {
            MPI_Status status;
            check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kPresenceTag, ring, &found, &status));
            if (found != 0) {
                Presence other;
                check_mpi(MPI_Recv(&other, sizeof other, MPI_BYTE, status.MPI_SOURCE, kPresenceTag,
                                   ring, MPI_STATUS_IGNORE));
                setting_.thread.heard(status.MPI_SOURCE);
                if (other.exchange == exchange_) {
                    present_[static_cast<std::size_t>(other.member)].store(other.ordinal);
                }
            }
        }
    }

    [[nodiscard]] std::vector<int> others() const {
        std::vector<int> ranks = setting_.members;
        std::erase(ranks, setting_.thread.rank());
        return ranks;
    }

    /// Members that have not said that they wait too; nobody before this member has said so.
    [[nodiscard]] std::vector<int> missing() const {
        const std::uint64_t ordinal = ordinal_.load();
        std::vector<int> ranks;
        for (std::size_t i = 0; i < setting_.members.size(); ++i) {
            if (static_cast<int>(i) != setting_.self && present_[i].load() < ordinal) {
                ranks.push_back(setting_.members[i]);
            }
        }
        return ranks;
    }

    [[nodiscard]] std::vector<RingTail> collect() const {
        std::vector<RingTail> tails;
        for (std::size_t i = 0; i < held_->tails.size(); ++i) {
            const TailRecord& record = held_->tails[i];
            if (record.round != round_) {
                fail<PeerError>({.where = "ring round",
                                 .what = "members are in different rounds",
                                 .expected = std::to_string(round_),
                                 .got = std::to_string(record.round) + " on " +
                                        setting_.thread.map().describe(setting_.members[i])});
            }
            tails.push_back(record.tail);
        }
        return tails;
    }

    /// After the last round. False when what this member has said has not left yet. A broken
    /// communicator stays: others may never free theirs.
    bool let_go() noexcept {
        bool all_left = true;
        try {
            setting_.thread.run([&] {
                all_left = told();
                if (!broken_.load()) {
                    check_mpi(MPI_Comm_free(&comm_));
                }
            });
        } catch (const std::exception&) {
            comm_ = MPI_COMM_NULL;  // MPI has ended, and with it the communicator
        }
        return all_left;
    }

    RingSetting setting_;
    int exchange_ = 0;
    std::shared_ptr<GroupMaking> group_ = std::make_shared<GroupMaking>();
    MPI_Comm comm_ = MPI_COMM_NULL;
    std::atomic<bool> broken_{false};  ///< a member was lost
    std::unique_ptr<Held> held_;
    std::vector<std::atomic<std::uint64_t>> present_;  ///< last ordinal a member waited in
    std::uint64_t round_ = 0;
    std::atomic<std::uint64_t> ordinal_{0};
    std::atomic<std::int64_t> arrived_{0};  ///< buckets
    std::atomic<bool> handed_{false};
    std::atomic<std::uint64_t> done_ordinal_{0};
    std::atomic<std::uint32_t> bell_{0};
    // The communication thread's:
    std::uint64_t poll_ordinal_ = 0;
    std::int64_t posted_ = 0;
    bool tail_posted_ = false;
    bool presence_sent_ = false;
    steady_clock::time_point handed_at_;
    steady_clock::time_point last_move_;
    std::deque<MPI_Request> requests_;
    std::vector<MPI_Request> presence_sends_;
};

}  // namespace

std::unique_ptr<RingEngine> make_mpi_engine(const RingSetting& setting) {
    return std::make_unique<MpiEngine>(setting);
}

}  // namespace cohort
