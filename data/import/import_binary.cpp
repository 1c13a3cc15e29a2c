// What the binary formats share: numbers of either byte order, samples in blocks.
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"

#include "data/import/import_formats.hpp"
#include "data/import/import_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace cohort {

namespace {

void reverse_floats(std::span<std::byte> bytes) {
    for (std::size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
        std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                     bytes.begin() + static_cast<std::ptrdiff_t>(at + sizeof(float)));
    }
}

/// [pixels, channels] to [channels, pixels], elements of `width` bytes.
void channels_to_front(std::span<std::byte> sample, std::int64_t channels, std::size_t width) {
    const std::vector<std::byte> before(sample.begin(), sample.end());
    const auto depth = static_cast<std::size_t>(channels);
    const std::size_t elements = sample.size() / width;
    for (std::size_t i = 0; i < elements; ++i) {
        const std::size_t to = i % depth * (elements / depth) + i / depth;
        std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                    sample.begin() + static_cast<std::ptrdiff_t>(to * width));
    }
}

}  // namespace

std::uint64_t decode_unsigned(std::span<const std::byte> bytes, bool big_endian) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const std::size_t from = big_endian ? i : bytes.size() - 1 - i;
        value = (value << 8U) | std::to_integer<std::uint64_t>(bytes[from]);
    }
    return value;
}

std::int64_t decode_integer(std::span<const std::byte> bytes, bool big_endian, bool is_signed) {
    std::uint64_t value = decode_unsigned(bytes, big_endian);
    const std::size_t bits = 8 * bytes.size();
    if (is_signed && bits < 64 && ((value >> (bits - 1)) & 1U) != 0) {
        value |= ~std::uint64_t{0} << bits;
    }
    constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return is_signed ? static_cast<std::int64_t>(value)
                     : static_cast<std::int64_t>(std::min(value, kLargest));
}

std::vector<std::int32_t> read_integer_labels(InputStream& stream, std::int64_t count,
                                              std::size_t width, bool big_endian, bool is_signed) {
    std::vector<std::int32_t> labels;
    std::vector<std::byte> block(width * 65536);
    for (std::int64_t done = 0; done < count;) {
        const auto part = static_cast<std::size_t>(std::min<std::int64_t>(count - done, 65536));
        const auto bytes = std::span(block).first(part * width);
        stream.read(bytes, fmt::format("the {} labels", count));
        for (std::size_t i = 0; i < part; ++i, ++done) {
            const auto one = bytes.subspan(i * width, width);
            const std::int64_t label = decode_integer(one, big_endian, is_signed);
            if (label < 0 || label >= std::numeric_limits<std::int32_t>::max()) {
                fail<FileError>({.where = stream.path(),
                                 .what = fmt::format("label {} is out of range", done),
                                 .expected = "0 or more, below 2147483647",
                                 .got = is_signed
                                            ? fmt::format("{}", label)
                                            : fmt::format("{}", decode_unsigned(one, big_endian)),
                                 .hint = "labels numbered from 0, one number per class"});
            }
            labels.push_back(static_cast<std::int32_t>(label));
        }
    }
    return labels;
}

std::vector<float> read_target_numbers(InputStream& stream, std::int64_t count, std::size_t width,
                                       bool big_endian, char kind) {
    std::vector<float> numbers;
    std::vector<std::byte> block(width * 65536);
    for (std::int64_t done = 0; done < count;) {
        const auto part = static_cast<std::size_t>(std::min<std::int64_t>(count - done, 65536));
        const auto bytes = std::span(block).first(part * width);
        stream.read(bytes, fmt::format("the {} targets", count));
        for (std::size_t i = 0; i < part; ++i, ++done) {
            const auto one = bytes.subspan(i * width, width);
            const std::int64_t bits = decode_integer(one, big_endian, true);
            numbers.push_back(kind == 'u'   ? static_cast<float>(decode_unsigned(one, big_endian))
                              : kind == 'i' ? static_cast<float>(bits)
                              : width == sizeof(float)
                                  ? std::bit_cast<float>(static_cast<std::int32_t>(bits))
                                  : static_cast<float>(std::bit_cast<double>(bits)));
        }
    }
    return numbers;
}

void import_samples(InputStream& stream, const ImportPair& pair, const ImportLabels& labels,
                    const std::vector<std::int64_t>& shape, SampleType type, bool big_endian,
                    ImportSink& sink, bool channels_last) {
    require_file(shape.front() == static_cast<std::int64_t>(labels.size()), stream.path(),
                 fmt::format("samples and labels of {} do not match", pair.labels.path),
                 fmt::format("{} samples", labels.size()), fmt::format("{}", shape.front()));
    if (labels.size() == 0) {
        return stream.require_end();
    }
    std::vector<std::int64_t> stored(shape.begin() + 1, shape.end());
    if (channels_last) {
        std::ranges::rotate(stored, stored.end() - 1);
    }
    sink.begin(pair, stored, type, 0, labels.targets);
    if (sink.counting()) {
        return sink.append({}, labels.classes, labels.numbers);
    }
    const std::size_t bytes = sink.sample_bytes();
    const auto block = static_cast<std::size_t>(sink.block_samples());
    std::vector<std::byte> samples(block * bytes);
    for (std::size_t done = 0; done < labels.size();) {
        const std::size_t part = std::min(block, labels.size() - done);
        const auto read = std::span(samples).first(part * bytes);
        stream.read(read,
                    fmt::format("samples {} to {} of {}", done, done + part - 1, labels.size()));
        if (type == SampleType::kF32 && big_endian) {
            reverse_floats(read);
        }
        for (std::size_t k = 0; channels_last && k < part; ++k) {
            channels_to_front(read.subspan(k * bytes, bytes), stored.front(),
                              type == SampleType::kU8 ? 1 : sizeof(float));
        }
        const auto of_part = [&](const auto& all) {
            const std::size_t each = all.size() / labels.size();
            return std::span(all).subspan(done * each, part * each);
        };
        sink.append(read, of_part(labels.classes), of_part(labels.numbers));
        done += part;
    }
    stream.require_end();
}

}  // namespace cohort
