// The binary versions of CIFAR-10 and CIFAR-100: records of one or two label bytes (coarse, fine)
// and 3072 image bytes, channel by channel.
#include "cohort/core/output.hpp"

#include "data/import/import_formats.hpp"
#include "data/import/import_input.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cohort {

namespace {

constexpr std::size_t kImageBytes = std::size_t{3} * 32 * 32;
constexpr std::size_t kRecordsPerBlock = 256;

/// @param label_bytes  the last one is used
void import_file(const ImportFile& file, std::size_t label_bytes, std::int64_t classes,
                 ImportSink& sink) {
    const std::size_t record = label_bytes + kImageBytes;
    InputStream stream(file.path);
    std::vector<std::byte> records(kRecordsPerBlock * record);
    std::vector<std::byte> images;
    std::vector<std::int32_t> labels;
    sink.begin({file, file}, {3, 32, 32}, SampleType::kU8, classes);
    while (const std::size_t got = stream.read_some(records)) {
        if (got % record != 0) {
            stream.fail_here("the file does not hold whole records",
                             fmt::format("a multiple of {} bytes", record),
                             fmt::format("{}", stream.offset()));
        }
        images.clear();
        labels.clear();
        for (std::size_t at = 0; at < got; at += record) {
            const auto image = std::span(records).subspan(at + label_bytes, kImageBytes);
            images.insert(images.end(), image.begin(), image.end());
            labels.push_back(std::to_integer<std::int32_t>(records[at + label_bytes - 1]));
        }
        sink.append(images, labels);
    }
    require_file(stream.offset() > 0, file.path, "the file is empty",
                 fmt::format("records of {} bytes", record), "");
}

}  // namespace

void import_cifar(ImportFormat format, const std::vector<ImportFile>& files, ImportSink& sink) {
    const bool ten = format == ImportFormat::kCifar10;
    for (const ImportFile& file : files) {
        import_file(file, ten ? 1 : 2, ten ? 10 : 100, sink);
    }
}

}  // namespace cohort
