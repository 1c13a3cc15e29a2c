#include "core/tensor/buffer_pool.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace cohort {

struct BufferPool::State {
    std::mutex mutex;
    std::vector<Buffer> free;
    std::uint64_t out = 0;  // lent buffers
    std::uint64_t most = 0;

    Buffer lend() {
        const std::lock_guard lock(mutex);
        most = std::max(most, ++out);
        free.reserve(most);  // so that giving back needs no memory
        if (free.empty()) {
            return {};
        }
        Buffer buffer = std::move(free.back());
        free.pop_back();
        return buffer;
    }
    void give_back(Buffer buffer) noexcept {
        const std::lock_guard lock(mutex);
        --out;
        if (buffer.data() != nullptr) {
            free.push_back(std::move(buffer));
        }
    }
};

namespace {

std::uint64_t buffer_bytes(std::int64_t floats) {
    return static_cast<std::uint64_t>(floats) * sizeof(float);
}

}  // namespace

BufferPool::BufferPool(Device& device, std::int64_t floats)
    : device_(device), floats_(floats), state_(std::make_shared<State>()) {
}

std::shared_ptr<float> BufferPool::take() {
    /// Returns the buffer to the pool when its last owner releases it, or when making it fails.
    struct Loan {
        explicit Loan(std::shared_ptr<State> pool)
            : state(std::move(pool)), buffer(state->lend()) {}
        Loan(const Loan&) = delete;
        Loan& operator=(const Loan&) = delete;
        ~Loan() { state->give_back(std::move(buffer)); }
        std::shared_ptr<State> state;
        Buffer buffer;
    };
    const auto loan = std::make_shared<Loan>(state_);
    if (loan->buffer.data() == nullptr) {
        loan->buffer = device_.allocate(std::max<std::size_t>(buffer_bytes(floats_), 64));
    }
    return {loan, loan->buffer.floats()};
}

std::uint64_t BufferPool::bytes_most() const {
    const std::lock_guard lock(state_->mutex);
    return state_->most * buffer_bytes(floats_);
}

}  // namespace cohort
