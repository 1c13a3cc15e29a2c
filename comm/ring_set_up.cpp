// All members' records at all members: they go to the first member, which sends them all to
// everybody. The communication thread moves them step by step, so that a member that never comes
// is named, and nothing else of this rank has to wait for it.
#include "ring_set_up.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>

#include "cohort/comm/ring_exchange.hpp"
#include "communicators.hpp"
#include "ring_futex.hpp"

namespace cohort {
namespace {

// Tags on the ring communicator. Exchanges of one member set are made one after the other, and
// messages between two ranks keep their order.
constexpr int kToFirst = 1;
constexpr int kToAll = 2;

static_assert(std::is_trivially_copyable_v<SetUpRecord>);

class RecordGather final : public Poller {
public:
    RecordGather(CommThread& thread, const std::vector<int>& members, int self,
                 const SetUpRecord& own)
        : thread_(thread), members_(members), self_(self), records_(members.size()) {
        records_[static_cast<std::size_t>(self)] = own;
        for (std::size_t i = 1; i < members.size(); ++i) {
            missing_.push_back(self == 0 ? members[i] : members[0]);
        }
        missing_.resize(self == 0 ? missing_.size() : 1);
    }

    bool poll() override {
        if (done_.load() != 0) {
            return false;
        }
        return self_ == 0 ? poll_first() : poll_other();
    }

    std::vector<SetUpRecord> wait() {
        const auto named = thread_.operations().begin("ring set-up", 0, [this] {
            const std::lock_guard lock(mutex_);
            return missing_;
        });
        while (done_.load() == 0) {
            futex_sleep(done_, 0);
        }
        return std::move(records_);
    }

private:
    [[nodiscard]] MPI_Comm comm() const { return thread_.communicators().ring; }

    void receive(std::size_t from, int tag, void* data, std::size_t bytes) {
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(
            MPI_Irecv(data, mpi_count(bytes), MPI_BYTE, members_[from], tag, comm(), &request));
        requests_.push_back(request);
    }
    void send(std::size_t to, int tag, const void* data, std::size_t bytes) {
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Isend(data, mpi_count(bytes), MPI_BYTE, members_[to], tag, comm(), &request));
        requests_.push_back(request);
        thread_.wake(members_[to]);
    }

    /// Tests what is under way; true when all has ended.
    bool ended() {
        bool all = true;
        for (std::size_t i = 0; i < requests_.size(); ++i) {
            int done = requests_[i] == MPI_REQUEST_NULL ? 1 : 0;
            if (done == 0) {
                check_mpi(MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE));
                if (done != 0 && self_ == 0 && step_ == 1) {
                    const std::lock_guard lock(mutex_);
                    std::erase(missing_, members_[i + 1]);
                }
            }
            all = all && done != 0;
        }
        if (all) {
            requests_.clear();
        }
        return all;
    }

    bool poll_first() {
        const std::size_t bytes = sizeof(SetUpRecord);
        if (step_ == 0) {
            for (std::size_t i = 1; i < members_.size(); ++i) {
                receive(i, kToFirst, &records_[i], bytes);
            }
            step_ = 1;
        }
        if (!ended()) {
            return false;
        }
        if (step_ == 1) {
            for (std::size_t i = 1; i < members_.size(); ++i) {
                send(i, kToAll, records_.data(), bytes * records_.size());
            }
            step_ = 2;
            return true;
        }
        return finish();
    }

    bool poll_other() {
        if (step_ == 0) {
            sent_ = records_[static_cast<std::size_t>(self_)];
            send(0, kToFirst, &sent_, sizeof sent_);
            receive(0, kToAll, records_.data(), sizeof(SetUpRecord) * records_.size());
            step_ = 1;
        }
        return ended() && finish();
    }

    bool finish() {
        done_.store(1);
        futex_wake_all(done_);
        return true;
    }

    CommThread& thread_;
    const std::vector<int>& members_;
    int self_;
    std::vector<SetUpRecord> records_;
    SetUpRecord sent_;
    int step_ = 0;
    std::vector<MPI_Request> requests_;
    std::mutex mutex_;
    std::vector<int> missing_;  ///< world ranks; under the mutex
    std::atomic<std::uint32_t> done_{0};
};

std::string text_of(const SetUpRecord& record) {
    return std::to_string(record.floats) + " floats in buckets of " +
           std::to_string(record.bucket_floats) + " by " +
           std::string(to_text(static_cast<AllReduceAlgorithm>(record.algorithm)));
}

}  // namespace

void SetUpRecord::set_error(const char* text) noexcept {
    std::strncpy(error.data(), text, error.size() - 1);
}

std::vector<SetUpRecord> gather_records(CommThread& thread, const std::vector<int>& members,
                                        int self, const SetUpRecord& own) {
    if (members.size() == 1) {
        return {own};
    }
    RecordGather gather(thread, members, self, own);
    thread.add_poller(gather);
    thread.wake();
    std::vector<SetUpRecord> records = gather.wait();
    thread.remove_poller(gather);
    return records;
}

void check_records(const RankMap& map, const std::vector<int>& members,
                   const std::vector<SetUpRecord>& records) {
    for (std::size_t i = 0; i < records.size(); ++i) {
        const SetUpRecord& record = records[i];
        if (record.error[0] != '\0') {
            throw DeviceError(map.describe(members[i]) + ": " + record.error.data());
        }
        if (record.floats != records[0].floats ||
            record.bucket_floats != records[0].bucket_floats ||
            record.algorithm != records[0].algorithm) {
            fail<UsageError>({.where = "RingExchange",
                              .what = "members disagree on size, bucket size or algorithm",
                              .expected = text_of(records[0]),
                              .got = text_of(record) + " on " + map.describe(members[i]),
                              .hint = "the same options on all ranks"});
        }
    }
}

}  // namespace cohort
