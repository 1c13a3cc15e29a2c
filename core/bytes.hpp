#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"

namespace cohort {

namespace detail {

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
struct IsPair : std::false_type {};
template <class First, class Second>
struct IsPair<std::pair<First, Second>> : std::true_type {};

}  // namespace detail

/// Turns values into the bytes of a message, in the machine's own representation: messages stay
/// within one job. Takes numbers, enums, strings, vectors, pairs, optionals, and structs with
/// `auto fields() { return std::tie(a, b, c); }`.
class ByteWriter {
public:
    template <class T>
    void put(T& value) {
        if constexpr (detail::IsVector<T>::value || std::is_same_v<T, std::string>) {
            auto count = static_cast<std::uint64_t>(value.size());
            put(count);
            for (auto& element : value) {
                put(element);
            }
        } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
            append(&value, sizeof value);
        } else if constexpr (detail::IsOptional<T>::value) {
            bool there = value.has_value();
            put(there);
            if (there) {
                put(*value);
            }
        } else if constexpr (detail::IsPair<T>::value) {
            put(value.first);
            put(value.second);
        } else {
            std::apply([this](auto&... field) { (this->put(field), ...); }, value.fields());
        }
    }
    [[nodiscard]] std::vector<std::byte> take() noexcept { return std::move(bytes_); }

private:
    /// Not inlined: GCC 12 takes the growth of a vector of known size for an overflow.
    [[gnu::noinline]] void append(const void* value, std::size_t size) {
        const std::size_t at = bytes_.size();
        bytes_.resize(at + size);
        std::memcpy(bytes_.data() + at, value, size);
    }

    std::vector<std::byte> bytes_;
};

/// Reads what ByteWriter wrote, in the same order. Errors: PeerError when the bytes are too few.
class ByteReader {
public:
    explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <class T>
    void get(T& value) {
        if constexpr (detail::IsVector<T>::value || std::is_same_v<T, std::string>) {
            std::uint64_t count = 0;
            get(count);
            require(count);  // every element takes a byte at least
            value.resize(static_cast<std::size_t>(count));
            for (auto& element : value) {
                get(element);
            }
        } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
            require(sizeof value);
            std::memcpy(&value, rest_.data(), sizeof value);
            rest_ = rest_.subspan(sizeof value);
        } else if constexpr (detail::IsOptional<T>::value) {
            bool there = false;
            get(there);
            value.reset();
            if (there) {
                get(value.emplace());
            }
        } else if constexpr (detail::IsPair<T>::value) {
            get(value.first);
            get(value.second);
        } else {
            std::apply([this](auto&... field) { (this->get(field), ...); }, value.fields());
        }
    }

private:
    void require(std::uint64_t bytes) const {
        if (rest_.size() < bytes) {
            fail<PeerError>({.where = "message",
                             .what = "it is shorter than its contents",
                             .hint = "the same program on all ranks"});
        }
    }

    std::span<const std::byte> rest_;
};

/// The bytes of a struct with `fields`.
template <class T>
[[nodiscard]] std::vector<std::byte> encode(T value) {
    ByteWriter writer;
    writer.put(value);
    return writer.take();
}

/// The struct from its bytes. Errors: PeerError.
template <class T>
[[nodiscard]] T decode(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    T value{};
    reader.get(value);
    return value;
}

}  // namespace cohort
