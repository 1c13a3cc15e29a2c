#pragma once

#include <exception>
#include <mutex>
#include <utility>

namespace cohort {

/// The error of a role on this rank, with which the coordinator's run ends. Thread safe.
class Cancellation {
public:
    void set(std::exception_ptr error) {
        const std::scoped_lock lock(mutex_);
        error_ = std::move(error);
    }
    /// Null: there is none.
    [[nodiscard]] std::exception_ptr error() const {
        const std::scoped_lock lock(mutex_);
        return error_;
    }
    /// Throws the error, if there is one.
    void check() const {
        if (const std::exception_ptr found = error()) {
            std::rethrow_exception(found);
        }
    }

private:
    mutable std::mutex mutex_;
    std::exception_ptr error_;
};

}  // namespace cohort
