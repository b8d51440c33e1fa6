package apiserver

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Confined returns the security context of a container that needs nothing of its node.
func Confined() *corev1.SecurityContext {
	yes, no, user := true, false, int64(65532)
	return &corev1.SecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &user, ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no,
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// PodState describes a pod that does not run yet.
func PodState(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			return strings.TrimSpace(w.Reason + " " + w.Message)
		}
	}
	return "the pod is " + string(pod.Status.Phase)
}
