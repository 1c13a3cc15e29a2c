#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/tensor/device.hpp"
#include "comm/allreduce/nccl/device_sums.hpp"

// Stand-ins for a GPU and for NCCL, so that what is built on them runs without either: a device
// whose streams work off their queues on threads of their own, and communicators that sum host
// memory of the ranks of one host. Nothing of NCCL itself is tested with them.
namespace cohort::test {

/// A point in a ThreadStream's work.
class ThreadEvent final : public Event {
public:
    [[nodiscard]] bool done() const override {
        const std::lock_guard lock(state_->mutex);
        return state_->done;
    }
    void wait() const override { state_->wait(); }
    [[nodiscard]] double seconds_since(const Event& earlier) const override {
        const auto& other = dynamic_cast<const ThreadEvent&>(earlier);
        return std::chrono::duration<double>(state_->at - other.state_->at).count();
    }

    struct State {
        std::mutex mutex;
        std::condition_variable changed;
        bool done = false;
        std::chrono::steady_clock::time_point at;
        void wait() {
            std::unique_lock lock(mutex);
            changed.wait(lock, [this] { return done; });
        }
        void reach() {
            const std::lock_guard lock(mutex);
            at = std::chrono::steady_clock::now();
            done = true;
            changed.notify_all();
        }
    };
    [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

private:
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Calls return at once; the work is done in order by a thread.
class ThreadStream final : public Stream {
public:
    ThreadStream() : thread_([this] { work(); }) {}
    ~ThreadStream() override {
        push(nullptr);
        thread_.join();
    }
    void push(std::function<void()> work) {
        const std::lock_guard lock(mutex_);
        queue_.push_back(std::move(work));
        changed_.notify_all();
    }
    void copy(void* to, const void* from, std::size_t bytes) override {
        push([=] { std::memcpy(to, from, bytes); });
    }
    void fill_zero(void* to, std::size_t bytes) override {
        push([=] { std::memset(to, 0, bytes); });
    }
    [[nodiscard]] std::unique_ptr<Event> record() override {
        auto event = std::make_unique<ThreadEvent>();
        push([state = event->state()] { state->reach(); });
        return event;
    }
    void wait_for(const Event& event) override {
        push([state = dynamic_cast<const ThreadEvent&>(event).state()] { state->wait(); });
    }
    void synchronize() override { record()->wait(); }

private:
    void work() {
        while (true) {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return !queue_.empty(); });
            const auto next = std::move(queue_.front());
            queue_.pop_front();
            lock.unlock();
            if (!next) {
                return;
            }
            next();
        }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> queue_;
    std::thread thread_;
};

/// Host memory, and streams that are asynchronous.
class ThreadDevice final : public Device {
public:
    [[nodiscard]] DeviceKind kind() const override { return DeviceKind::kCpu; }
    [[nodiscard]] std::string description() const override { return "threads"; }
    [[nodiscard]] Buffer allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
    [[nodiscard]] Buffer allocate_host(std::size_t bytes) override {
        return cpu_->allocate_host(bytes);
    }
    [[nodiscard]] std::unique_ptr<Stream> create_stream() override {
        return std::make_unique<ThreadStream>();
    }
    [[nodiscard]] DeviceMemory memory() const override { return cpu_->memory(); }

private:
    std::unique_ptr<Device> cpu_ = make_cpu_device(1);
};

/// What the members of a communicator share, in memory named by its id.
class HostSumsMemory {
public:
    static constexpr std::size_t kMostMembers = 8;
    static constexpr std::size_t kMostFloats = 1 << 18;
    struct Shared {
        std::atomic<int> joined{0};
        std::atomic<bool> closed{false};  ///< a member has aborted what was being made
        std::array<std::atomic<std::uint64_t>, kMostMembers> written{};
        std::array<std::atomic<std::uint64_t>, kMostMembers> read{};
        std::array<std::array<float, kMostFloats>, kMostMembers> floats;
    };
    HostSumsMemory(const std::string& name, bool create) {
        const int file = ::shm_open(name.c_str(), O_RDWR | (create ? O_CREAT | O_EXCL : 0), 0600);
        if (file < 0 || ::ftruncate(file, sizeof(Shared)) != 0) {
            throw DeviceError("no shared memory " + name);
        }
        void* data = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        ::close(file);
        if (data == MAP_FAILED) {
            throw DeviceError("shared memory cannot be mapped");
        }
        shared_ = static_cast<Shared*>(data);  // new memory is zero, and so are the counters
    }
    HostSumsMemory(const HostSumsMemory&) = delete;
    HostSumsMemory& operator=(const HostSumsMemory&) = delete;
    ~HostSumsMemory() { ::munmap(shared_, sizeof(Shared)); }
    [[nodiscard]] Shared& get() const { return *shared_; }

private:
    Shared* shared_ = nullptr;
};

/// Sums in member order.
class HostSums final : public DeviceSums {
public:
    /// @param fails  it begins, but is never made
    HostSums(const std::string& id, int members, int self, bool fails, int& aborts,
             std::vector<void*>& registered, std::vector<std::int64_t>& sizes)
        : fails_(fails),
          aborts_(aborts),
          registered_(registered),
          sizes_(sizes),
          work_(std::make_shared<Work>(id, static_cast<std::size_t>(members),
                                       static_cast<std::size_t>(self))) {
        work_->memory.get().joined.fetch_add(fails ? 0 : 1);
    }
    ~HostSums() override {
        end();
        if (queueing_.joinable()) {
            queueing_.join();
        }
    }
    [[nodiscard]] State state() override {
        if (work_->aborted.load() || (fails_ && looks_++ > 3)) {
            return State::kFailed;
        }
        if (!made()) {
            return work_->memory.get().closed.load() ? State::kFailed : State::kWorking;
        }
        return work_->queued.load() == number_ ? State::kReady : State::kWorking;
    }
    [[nodiscard]] std::string error() const override {
        return fails_ ? "no path to a peer" : "a member has aborted";
    }
    /// As NCCL does without blocking: it is queued by another thread, a little later.
    void all_reduce(float* buffer, std::int64_t floats, Stream& on) override {
        check_invariant(state() == State::kReady, "a sum before the last one was queued");
        if (queueing_.joinable()) {
            queueing_.join();
        }
        ++number_;
        sizes_.push_back(floats);
        queueing_ = std::thread([work = work_, buffer, floats, &on, number = number_] {
            std::this_thread::sleep_for(std::chrono::microseconds(number % 2 == 0 ? 50 : 3000));
            dynamic_cast<ThreadStream&>(on).push([work, buffer, floats, number] {
                work->sum(buffer, static_cast<std::size_t>(floats), number);
            });
            work->queued.store(number);
        });
    }
    void register_buffer(void* data, std::size_t /*bytes*/) override {
        check_invariant(state() == State::kReady, "memory of a communicator that is not made");
        registered_.push_back(data);
    }
    void abort() noexcept override {
        ++aborts_;
        end();
    }

private:
    void end() noexcept {
        work_->aborted.store(true);
        if (!made()) {
            work_->memory.get().closed.store(true);
        }
    }
    [[nodiscard]] bool made() const {
        return work_->memory.get().joined.load() == static_cast<int>(work_->members);
    }
    struct Work {
        Work(const std::string& id, std::size_t all, std::size_t own)
            : memory(id, false), members(all), self(own) {}
        /// False: aborted.
        bool wait_until(
            const std::array<std::atomic<std::uint64_t>, HostSumsMemory::kMostMembers>& counters,
            std::uint64_t number) {
            for (std::size_t i = 0; i < members; ++i) {
                while (counters[i].load() < number) {
                    if (aborted.load()) {
                        return false;
                    }
                    std::this_thread::sleep_for(std::chrono::microseconds(20));
                }
            }
            return true;
        }
        void sum(float* buffer, std::size_t floats, std::uint64_t number) {
            HostSumsMemory::Shared& shared = memory.get();
            check_invariant(floats <= HostSumsMemory::kMostFloats, "too much for the stand-in");
            if (!wait_until(shared.read, number - 1)) {
                return;
            }
            std::copy_n(buffer, floats, shared.floats[self].data());
            shared.written[self].store(number);
            if (!wait_until(shared.written, number)) {
                return;
            }
            for (std::size_t i = 0; i < floats; ++i) {
                float total = shared.floats[0][i];
                for (std::size_t member = 1; member < members; ++member) {
                    total += shared.floats[member][i];
                }
                buffer[i] = total;
            }
            shared.read[self].store(number);
        }
        HostSumsMemory memory;
        std::size_t members;
        std::size_t self;
        std::atomic<bool> aborted{false};
        std::atomic<std::uint64_t> queued{0};  ///< sums
    };
    bool fails_;
    int& aborts_;
    std::vector<void*>& registered_;
    std::vector<std::int64_t>& sizes_;
    int looks_ = 0;
    std::shared_ptr<Work> work_;
    std::uint64_t number_ = 0;
    std::thread queueing_;
};

class HostSumsLibrary final : public DeviceSumsLibrary {
public:
    explicit HostSumsLibrary(std::string place) : place_(std::move(place)) {}
    ~HostSumsLibrary() override {
        for (const std::string& name : names_) {
            ::shm_unlink(name.c_str());
        }
    }
    [[nodiscard]] std::string new_id() override {
        if (fails_naming) {
            throw DeviceError("no network");
        }
        static std::atomic<int> named{0};
        std::string name =
            "/cohort-host-sums-" + std::to_string(::getpid()) + "-" + std::to_string(named++);
        const HostSumsMemory made(name, true);
        names_.push_back(name);
        name.resize(kMostIdBytes);
        return name;
    }
    [[nodiscard]] std::unique_ptr<DeviceSums> join(const std::string& id, int members, int self,
                                                   Device& /*device*/) override {
        ++joins;
        if (fails_joining) {
            throw DeviceError("no card");
        }
        return std::make_unique<HostSums>(std::string(id.c_str()), members, self, fails_making,
                                          aborts, registered, sizes);
    }
    [[nodiscard]] std::unique_ptr<Stream> make_stream(Device& device) override {
        return device.create_stream();
    }
    [[nodiscard]] Buffer allocate(Device& device, std::size_t bytes) override {
        return device.allocate(bytes);
    }
    [[nodiscard]] std::int64_t piece_bytes() const noexcept override { return piece; }
    [[nodiscard]] std::string place(const Device& /*device*/) const override { return place_; }

    bool fails_naming = false;
    bool fails_joining = false;
    bool fails_making = false;
    int joins = 0;                    ///< how often it was asked to
    int aborts = 0;                   ///< of its communicators, before they were let go
    std::int64_t piece = 10'000;      ///< bytes
    std::vector<void*> registered;    ///< memory that its communicators were told of
    std::vector<std::int64_t> sizes;  ///< floats of all sums

private:
    std::string place_;
    std::vector<std::string> names_;
};

}  // namespace cohort::test
