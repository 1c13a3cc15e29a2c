#include "train/live/live_page.hpp"

#include <ctime>
#include <span>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "data/file/file_io.hpp"
#include "train/live/view_page.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {

LivePage::LivePage(const std::string& out, double every_s)
    : path_(RunFolder(out).live_page),
      every_s_(every_s),
      reader_(RunFolder(out).metrics),
      viewer_(out) {
}

void LivePage::add(std::string_view line, Clock::Seconds now) {
    try {
        reader_.feed(std::string(line) + "\n", viewer_);
        if (viewer_.view().over || now.count() - written_s_ >= every_s_) {
            written_s_ = now.count();
            write();
        }
    } catch (const FileError& error) {
        if (!std::exchange(failed_, true)) {
            log_warn("the page that shows how the run stands could not be written: {}",
                     error.what());
        }
    }
}

void LivePage::write() {
    const std::string page = view_page(viewer_.view(), every_s_, std::time(nullptr));
    AtomicFile file(OutputFile(path_, true, FolderRule::kOwn));
    file.write_at(0, std::as_bytes(std::span(page)));
    file.commit(FileLife::kRenewed);
}

}  // namespace cohort
