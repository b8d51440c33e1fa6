// Command hit is a program that workers run. It sends the given number of requests to the subject, and one to the API
// server. It takes their addresses from its environment.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.CoreV1().Pods(os.Getenv("NAMESPACE")).Get(context.Background(), os.Getenv("POD"), metav1.GetOptions{}); err != nil {
		log.Fatal(err)
	}
	for range n {
		answer, err := http.Post(os.Getenv("URL")+"/work", "text/plain", nil)
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			log.Fatal(answer.Status)
		}
	}
}
